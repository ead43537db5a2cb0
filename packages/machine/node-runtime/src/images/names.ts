// SPDX-License-Identifier: Apache-2.0
// Origin of an image, derived from its names. Pure. CRI names a pulled image by its tag and by its
// digest in the same repository; an added image has no digest name.
import { fullReference, repositoryOf } from "@patchbay/containerd";
import { isAppError } from "@patchbay/core";
import type { ContainerImage } from "@patchbay/core/ports";

/** No registry serves this host. */
const LOCAL_PREFIX = "localhost/";

/**
 * Returns the reference as written, and in the full form of the runtime. An invalid reference has
 * no full form.
 */
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

/**
 * Returns the alias that the runtime lists; undefined when the image was found by its id or a
 * prefix of it.
 */
export function findListedName(
  reference: string,
  { tags, digests }: ContainerImage,
): string | undefined {
  const names = new Set([...tags, ...digests]);
  return referenceAliases(reference).find((alias) => names.has(alias));
}

/** Whether the image was pulled from the repository of that name. */
export function isFromRegistry(name: string, { digests }: ContainerImage): boolean {
  const repository = repositoryOf(name);
  return digests.some((digest) => repositoryOf(digest) === repository);
}
