// SPDX-License-Identifier: Apache-2.0
// What do the names of an image tell of where it is from? Pure. CRI names what it fetches by a tag, and by the digest in the
// same repository; what was added has no such second name.
import { fullReference, repositoryOf } from "@patchbay/containerd";
import { isAppError } from "@patchbay/core";
import type { ContainerImage } from "@patchbay/core/ports";

/** The host that no registry is: what it names is on this machine or nowhere. */
const LOCAL = "localhost/";

/** As people write it, and as the runtime tells it: whole. What is no name has one spelling. */
export function spellingsOf(reference: string): readonly string[] {
  try {
    return [reference, fullReference(reference)];
  } catch (error) {
    if (isAppError(error, "IMAGE_NAME_INVALID")) return [reference];
    throw error;
  }
}

/** Whether no registry can have an image of that name. */
export function isLocalName(reference: string): boolean {
  return reference.startsWith(LOCAL);
}

/** The name as the runtime has it; undefined: it was found by its id, or a part of that. */
export function ownNameOf(
  reference: string,
  { tags, digests }: ContainerImage,
): string | undefined {
  const names = new Set([...tags, ...digests]);
  return spellingsOf(reference).find((spelling) => names.has(spelling));
}

/** Whether a registry has ever given the image for another name of that repository, or for this one. */
export function isOfRegistry(name: string, { digests }: ContainerImage): boolean {
  const repository = repositoryOf(name);
  return digests.some((digest) => repositoryOf(digest) === repository);
}
