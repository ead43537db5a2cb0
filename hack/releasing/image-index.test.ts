// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { buildIndex, readDescriptor } from "./image-index.ts";
import { sha256 } from "./release.ts";

const descriptor = (digest: string) => ({ mediaType: "m", digest, size: 1 });

test("an index names the manifest of each architecture, and the layout names the index", () => {
  const built = [
    { architecture: "amd64", descriptor: descriptor("sha256:a") },
    { architecture: "arm64", descriptor: descriptor("sha256:b") },
  ];
  const { blob, digest, layoutIndex } = buildIndex(built, "r.example/p/pause:0.2.0", "0.2.0");
  expect(JSON.parse(blob)).toMatchObject({
    schemaVersion: 2,
    manifests: [
      { digest: "sha256:a", platform: { architecture: "amd64", os: "linux" } },
      { digest: "sha256:b", platform: { architecture: "arm64", os: "linux" } },
    ],
    annotations: { "org.opencontainers.image.version": "0.2.0" },
  });
  expect(digest).toBe(`sha256:${sha256(blob)}`);
  expect(JSON.parse(layoutIndex)).toMatchObject({
    manifests: [
      {
        digest,
        size: blob.length,
        annotations: { "org.opencontainers.image.ref.name": "r.example/p/pause:0.2.0" },
      },
    ],
  });
});

test("reads the manifest of a layout without its name, and rejects several", () => {
  const entry = { ...descriptor("sha256:a"), annotations: { name: "x" } };
  expect(readDescriptor(JSON.stringify({ manifests: [entry] }))).toEqual(descriptor("sha256:a"));
  expect(() => readDescriptor(JSON.stringify({ manifests: [entry, entry] }))).toThrow();
});
