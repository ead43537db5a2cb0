// SPDX-License-Identifier: Apache-2.0
import { parse } from "yaml";
import { expect, test } from "vitest";
import { renderKrewManifest } from "./krew.ts";

test("a plugin has an archive for each platform", () => {
  const platforms = [
    { architecture: "amd64", uri: "https://r.example/a.tar.gz", sha256: "00" },
    { architecture: "arm64", uri: "https://r.example/b.tar.gz", sha256: "11" },
  ];
  const text = renderKrewManifest("0.2.0", platforms, { folder: "patchbay-0.2.0", program: "p" });
  expect(parse(text)).toMatchObject({
    kind: "Plugin",
    metadata: { name: "patchbay" },
    spec: {
      version: "v0.2.0",
      platforms: [
        {
          selector: { matchLabels: { os: "linux", arch: "amd64" } },
          uri: "https://r.example/a.tar.gz",
          sha256: "00",
          files: [{ from: "patchbay-0.2.0/*", to: "." }],
          bin: "p",
        },
        { selector: { matchLabels: { os: "linux", arch: "arm64" } }, sha256: "11" },
      ],
    },
  });
});
