// SPDX-License-Identifier: Apache-2.0
import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { layoutFilesOf } from "./oci-image.ts";

function digestOf(text: string): string {
  return `sha256:${createHash("sha256").update(text).digest("hex")}`;
}

interface Described {
  readonly digest: string;
  readonly size: number;
}

test("each blob is where, and as long as, what points at it says", () => {
  const layer = { digest: digestOf("layer"), bytes: 10_240 };
  const files = layoutFilesOf(layer, "arm64", digestOf);
  const textOf = ({ digest, size }: Described): string => {
    const text = files[`blobs/sha256/${digest.slice("sha256:".length)}`] ?? "";
    expect(digestOf(text)).toBe(digest);
    expect(text).toHaveLength(size);
    return text;
  };
  const index = JSON.parse(files["index.json"] ?? "") as { manifests: [Described] };
  const manifest = JSON.parse(textOf(index.manifests[0])) as {
    config: Described;
    layers: readonly Described[];
  };
  expect(manifest.layers).toEqual([
    { mediaType: "application/vnd.oci.image.layer.v1.tar", digest: layer.digest, size: 10_240 },
  ]);
  expect(JSON.parse(textOf(manifest.config))).toEqual({
    architecture: "arm64",
    os: "linux",
    config: {},
    rootfs: { type: "layers", diff_ids: [layer.digest] },
  });
  expect(layoutFilesOf(layer, "arm64", digestOf)).toEqual(files);
});
