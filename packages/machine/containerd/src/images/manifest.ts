// SPDX-License-Identifier: Apache-2.0
// What does a manifest, or an index of manifests, say? Pure. Source: OCI image specification, manifest, image index; docker
// schema 2 has the same members.
import { isJsonObject, parseJson, type JsonObject } from "@patchbay/api/json";

/** A manifest of an image tells how large it is; an index, which manifest is this machine's. */
export type ManifestFacts =
  | { readonly kind: "image"; readonly bytes: number }
  | { readonly kind: "index"; readonly manifest: string | undefined };

function objectsIn(value: unknown): readonly JsonObject[] {
  return Array.isArray(value) ? value.filter(isJsonObject) : [];
}

function isFor(manifest: JsonObject, architecture: string): boolean {
  const platform = manifest["platform"];
  if (!isJsonObject(platform)) return true;
  return platform["os"] === "linux" && platform["architecture"] === architecture;
}

function sizeOf(blob: JsonObject): number {
  const size = blob["size"];
  return typeof size === "number" ? size : 0;
}

/** Reads it; `architecture` as Go names it. Bytes are those that a registry would send. */
export function readManifest(text: string, architecture: string): ManifestFacts {
  const value = parseJson(text);
  const fields = isJsonObject(value) ? value : {};
  if (Array.isArray(fields["manifests"])) {
    const digest = objectsIn(fields["manifests"]).find((each) => isFor(each, architecture))?.[
      "digest"
    ];
    return { kind: "index", manifest: typeof digest === "string" ? digest : undefined };
  }
  const blobs = [...objectsIn([fields["config"]]), ...objectsIn(fields["layers"])];
  return { kind: "image", bytes: blobs.reduce((sum, blob) => sum + sizeOf(blob), 0) };
}
