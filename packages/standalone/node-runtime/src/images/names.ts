// SPDX-License-Identifier: Apache-2.0
// Derives an image's origin from its names. Only pulled images have a name with a digest.
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

/** Returns the listed name of the reference, or undefined for a full or short image id. */
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
