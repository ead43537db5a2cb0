// SPDX-License-Identifier: Apache-2.0
// Origin of an image by its names: a pulled image has a name with a digest, an added one has not. Pure.
import { fullReference, repositoryOf } from "@patchbay/containerd";
import { isAppError } from "@patchbay/base";
import type { ContainerImage } from "@patchbay/core/interfaces";

/** No registry serves this host. */
const LOCAL_PREFIX = "localhost/";

/** An invalid reference has no full form. */
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

/** Undefined when the runtime found the image by its id or a prefix of it. */
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
