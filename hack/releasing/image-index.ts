// SPDX-License-Identifier: Apache-2.0
// The index of an image for several architectures. Source: OCI image-spec 1.1, image-index.md and image-layout.md.
import { sha256 } from "./release.ts";

const INDEX = "application/vnd.oci.image.index.v1+json";

interface Descriptor {
  readonly mediaType: string;
  readonly digest: string;
  readonly size: number;
}

export interface BuiltManifest {
  readonly architecture: string;
  readonly descriptor: Descriptor;
}

export interface ImageIndex {
  /** The index as a blob. */
  readonly blob: string;
  readonly digest: string;
  /** Text of the layout's `index.json`, which names the blob by tag. */
  readonly layoutIndex: string;
}

/** Returns the only manifest in the `index.json` of one architecture's layout. */
export function readDescriptor(layoutIndex: string): Descriptor {
  const { manifests } = JSON.parse(layoutIndex) as { readonly manifests: readonly Descriptor[] };
  const [descriptor] = manifests;
  if (descriptor === undefined || manifests.length !== 1) throw new Error("not one image");
  const { mediaType, digest, size } = descriptor;
  return { mediaType, digest, size };
}

export function buildIndex(
  built: readonly BuiltManifest[],
  tag: string,
  version: string,
): ImageIndex {
  const manifests = built.map(({ architecture, descriptor }) => ({
    ...descriptor,
    platform: { architecture, os: "linux" },
  }));
  const annotations = { "org.opencontainers.image.version": version };
  const blob = JSON.stringify({ schemaVersion: 2, mediaType: INDEX, manifests, annotations });
  const digest = `sha256:${sha256(blob)}`;
  const entry = {
    mediaType: INDEX,
    digest,
    size: Buffer.byteLength(blob),
    annotations: { "org.opencontainers.image.ref.name": tag },
  };
  const layoutIndex = JSON.stringify({ schemaVersion: 2, mediaType: INDEX, manifests: [entry] });
  return { blob, digest, layoutIndex };
}
