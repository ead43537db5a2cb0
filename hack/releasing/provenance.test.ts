// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { renderProvenance } from "./provenance.ts";

test("a statement names the files, the parameters and the commit", () => {
  const text = renderProvenance({
    version: "0.2.0",
    registry: "r.example/p",
    url: "https://r.example/v0.2.0",
    architectures: ["amd64"],
    epoch: 7,
    commit: "abc",
    files: new Map([["a.tar", "00"]]),
    locks: new Map([["package-lock.json", "11"]]),
  });
  expect(JSON.parse(text)).toMatchObject({
    _type: "https://in-toto.io/Statement/v1",
    subject: [{ name: "a.tar", digest: { sha256: "00" } }],
    predicateType: "https://slsa.dev/provenance/v1",
    predicate: {
      buildDefinition: {
        externalParameters: { version: "0.2.0", registry: "r.example/p", architectures: ["amd64"] },
        resolvedDependencies: [
          { digest: { gitCommit: "abc" } },
          { name: "package-lock.json", digest: { sha256: "11" } },
        ],
      },
    },
  });
});
