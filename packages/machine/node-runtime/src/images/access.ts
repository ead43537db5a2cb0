// SPDX-License-Identifier: Apache-2.0
// May a pod have an image that is on the machine, without a word of its registry?
import { repositoryOf } from "@patchbay/containerd";
import type { ContainerImage, RegistryCredentials } from "@patchbay/core/ports";
import type { Grants } from "./grants.ts";
import { isLocalName, isOfRegistry, ownNameOf, spellingsOf } from "./names.ts";

/** An image, and what somebody calls it. */
export interface NamedImage {
  readonly reference: string;
  readonly image: ContainerImage;
}

/** Who may have which image. */
export interface ImageAccess {
  /** Whether the name was given on this machine: it is everybody's, and no registry's. */
  isAdded(named: NamedImage): Promise<boolean>;
  /** Whether the registry has given it to everybody, or to who told one of these, which are asked for when that counts. */
  mayUse(
    named: NamedImage,
    credentials: () => Promise<readonly RegistryCredentials[]>,
  ): Promise<boolean>;
  /** A registry has given the image of that id for that name; credentials: to whom. */
  fetched(
    reference: string,
    id: string,
    credentials: RegistryCredentials | undefined,
  ): Promise<void>;
}

/** What is asked. */
export interface AccessDeps {
  readonly grants: Grants;
  /** Whether a whole reference has the mark of a name that was given here; absent: nothing can be marked. */
  readonly isMarked?: (name: string) => Promise<boolean>;
}

class Access implements ImageAccess {
  readonly #deps: AccessDeps;

  constructor(deps: AccessDeps) {
    this.#deps = deps;
  }

  async isAdded({ reference, image }: NamedImage): Promise<boolean> {
    const name = ownNameOf(reference, image);
    if (name === undefined) return false;
    if (isLocalName(name) || !isOfRegistry(name, image)) return true;
    return (await this.#deps.isMarked?.(name)) ?? false;
  }

  async mayUse(
    { reference, image }: NamedImage,
    credentials: () => Promise<readonly RegistryCredentials[]>,
  ): Promise<boolean> {
    const { grants } = this.#deps;
    const name = ownNameOf(reference, image);
    if (name === undefined) return false;
    const asked = { id: image.id, repository: repositoryOf(name) };
    return (await grants.isForAnyone(asked)) || grants.hasShown(asked, await credentials());
  }

  async fetched(
    reference: string,
    id: string,
    credentials: RegistryCredentials | undefined,
  ): Promise<void> {
    const name = spellingsOf(reference).at(-1) ?? reference;
    await this.#deps.grants.give({ id, repository: repositoryOf(name) }, credentials);
  }
}

/** Remembers by the grants. */
export function createImageAccess(deps: AccessDeps): ImageAccess {
  return new Access(deps);
}
