// SPDX-License-Identifier: Apache-2.0
// What describes an image of one layer that is not compressed? Pure; the same layer gives the same image.
// Source: OCI image specification 1.0, image layout, manifest, configuration.

/** A blob by its content. */
export interface Blob {
  /** `sha256:…` */
  readonly digest: string;
  readonly bytes: number;
}

/** Files of an OCI layout, by path below it. */
export type LayoutFiles = Readonly<Record<string, string>>;

const MEDIA = "application/vnd.oci.image";

/** Where a blob is. */
export function blobPath(digest: string): string {
  return `blobs/${digest.replace(":", "/")}`;
}

function describe(kind: string, { digest, bytes }: Blob): object {
  return { mediaType: `${MEDIA}.${kind}`, digest, size: bytes };
}

/** Everything but the layer, whose blob the caller puts at {@link blobPath}; `architecture` as Go names it. */
export function layoutFilesOf(
  layer: Blob,
  architecture: string,
  digestOf: (text: string) => string,
): LayoutFiles {
  const blobOf = (text: string): Blob => ({
    digest: digestOf(text),
    bytes: new TextEncoder().encode(text).length,
  });
  const config = JSON.stringify({
    architecture,
    os: "linux",
    config: {},
    rootfs: { type: "layers", diff_ids: [layer.digest] },
  });
  const manifest = JSON.stringify({
    schemaVersion: 2,
    mediaType: `${MEDIA}.manifest.v1+json`,
    config: describe("config.v1+json", blobOf(config)),
    layers: [describe("layer.v1.tar", layer)],
  });
  const manifests = [describe("manifest.v1+json", blobOf(manifest))];
  return {
    "oci-layout": JSON.stringify({ imageLayoutVersion: "1.0.0" }),
    "index.json": JSON.stringify({ schemaVersion: 2, manifests }),
    [blobPath(digestOf(config))]: config,
    [blobPath(digestOf(manifest))]: manifest,
  };
}
