// SPDX-License-Identifier: Apache-2.0
// A pull secret whose host patterns are costly to match.
import type { Secret } from "@patchbay/api/kubernetes";
import { expect, test } from "vitest";
import { selectCredentials } from "../../../packages/standalone/node-runtime/src/images/credentials.ts";

/** Processor time for one image. Generous: the secret below once took minutes. */
const LOOK_MS = 250;

function aSecretFor(host: string): Secret {
  const auths = { [host]: { username: "me", password: "pw" } };
  const config = Buffer.from(JSON.stringify({ auths })).toString("base64");
  return {
    apiVersion: "v1",
    kind: "Secret",
    metadata: { name: "pull", namespace: "ns1" },
    data: { ".dockerconfigjson": config },
  };
}

test.each([
  { what: "many `*`", host: `${"*a".repeat(20)}*b.example` },
  { what: "a million `*`", host: `${"*".repeat(700_000)}b.example` },
  { what: "groups", host: `${"(a+)+".repeat(20)}b.example` },
])("attack 85: matches the host of a pull secret with $what without delay", ({ host }) => {
  const image = `${"a".repeat(60)}.example/x`;
  const before = process.threadCpuUsage();
  expect(selectCredentials(image, [aSecretFor(host)])).toEqual([]);
  const used = process.threadCpuUsage(before);
  expect((used.user + used.system) / 1000).toBeLessThan(LOOK_MS);
});
