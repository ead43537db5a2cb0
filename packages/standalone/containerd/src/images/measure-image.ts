// SPDX-License-Identifier: Apache-2.0
import { isJsonObject, parseJson, type JsonObject } from "@patchbay/api/json";
import { ctr, type CtrDeps } from "../ctr.ts";

/** Parsed manifest or index. Source: OCI image specification. Docker's schema 2 has the same fields. */
type ManifestFacts =
  | { readonly kind: "image"; readonly bytes: number }
  | { readonly kind: "index"; readonly manifestDigest: string | undefined };

function filterObjects(value: unknown): readonly JsonObject[] {
  return Array.isArray(value) ? value.filter(isJsonObject) : [];
}

function isForArchitecture(manifest: JsonObject, architecture: string): boolean {
  const platform = manifest["platform"];
  if (!isJsonObject(platform)) return true;
  return platform["os"] === "linux" && platform["architecture"] === architecture;
}

function readSize(blob: JsonObject): number {
  const size = blob["size"];
  return typeof size === "number" ? size : 0;
}

export function readManifest(text: string, architecture: string): ManifestFacts {
  const value = parseJson(text);
  const fields = isJsonObject(value) ? value : {};
  if (Array.isArray(fields["manifests"])) {
    const digest = filterObjects(fields["manifests"]).find((each) =>
      isForArchitecture(each, architecture),
    )?.["digest"];
    return { kind: "index", manifestDigest: typeof digest === "string" ? digest : undefined };
  }
  const blobs = [...filterObjects([fields["config"]]), ...filterObjects(fields["layers"])];
  return { kind: "image", bytes: blobs.reduce((sum, blob) => sum + readSize(blob), 0) };
}

/**
 * Returns the compressed size in bytes; undefined if the image has no variant for `architecture` (Go's notation).
 * @throws AppError with CONTAINERD_FAILED
 */
export async function measureImage(
  deps: CtrDeps,
  digest: string,
  architecture: string,
): Promise<number | undefined> {
  const facts = readManifest(await ctr(deps, ["content", "get", digest]), architecture);
  if (facts.kind === "image") return facts.bytes;
  return facts.manifestDigest === undefined
    ? undefined
    : measureImage(deps, facts.manifestDigest, architecture);
}
