// SPDX-License-Identifier: Apache-2.0
// Origin of an image by its names: a pulled image has a name with a digest, an added one has not. Pure.
import { fullReference, repositoryOf } from "@patchbay/containerd";
import { isAppError } from "@patchbay/base";
import type { ContainerImage } from "@patchbay/core/interfaces";

/** Host of images that no registry serves. */
const LOCAL_PREFIX = "localhost/";

/** Returns the reference and its full form, which an invalid reference does not have. */
export function referenceAliases(reference: string): readonly string[] {
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

/** Returns the image's name that equals the reference; undefined if the reference is the image's id or a prefix of it. */
export function findListedName(
  reference: string,
  { tags, digests }: ContainerImage,
): string | undefined {
  const names = new Set([...tags, ...digests]);
  return referenceAliases(reference).find((alias) => names.has(alias));
}

export function isFromRegistry(name: string, { digests }: ContainerImage): boolean {
  const repository = repositoryOf(name);
  return digests.some((digest) => repositoryOf(digest) === repository);
}
