// SPDX-License-Identifier: Apache-2.0
// Derives the origin of an image from its names. Pulled images have a name with a digest; added images do not.
import { fullReference, parseRepository } from "@patchbay/containerd";
import { isAppError } from "@patchbay/base";
import type { ContainerImage } from "@patchbay/core/interfaces";

/** Prefix of image names that no registry serves. */
const LOCAL_PREFIX = "localhost/";

/** Returns the reference and its full form. Returns only the reference if it is invalid. */
export function listReferenceAliases(reference: string): readonly string[] {
  try {
    return [reference, fullReference(reference)];
  } catch (error) {
    if (isAppError(error, "IMAGE_NAME_INVALID")) return [reference];
    throw error;
  }
}

export function isLocalName(reference: string): boolean {
  return reference.startsWith(LOCAL_PREFIX);
}

/** Returns the name that equals the reference or its full form. Returns undefined for an image id or the prefix of an id. */
export function findListedName(
  reference: string,
  { tags, digests }: ContainerImage,
): string | undefined {
  const names = new Set([...tags, ...digests]);
  return listReferenceAliases(reference).find((alias) => names.has(alias));
}

export function isFromRegistry(name: string, { digests }: ContainerImage): boolean {
  const repository = parseRepository(name);
  return digests.some((digest) => parseRepository(digest) === repository);
}

function findRegistry(reference: string): string | undefined {
  const slash = reference.indexOf("/");
  const first = slash < 0 ? "" : reference.slice(0, slash);
  const isRegistry = /[.:]/.test(first) || first === "localhost" || first !== first.toLowerCase();
  return isRegistry ? first : undefined;
}

/** Returns the registry's host, with `127.1` as `127.0.0.1`. Undefined for the default registry; empty if the registry is malformed. */
export function findRegistryHost(reference: string): string | undefined {
  const registry = findRegistry(reference);
  if (registry === undefined) return undefined;
  const url = `http://${registry}`;
  if (!URL.canParse(url)) return "";
  return new URL(url).hostname.replaceAll(/^\[|\]$|\.$/g, "");
}
