// SPDX-License-Identifier: Apache-2.0
// The authority that all virt-apis have in the Secret, to sign for others.
import type { Secret } from "@patchbay/api";
import { AppError } from "@patchbay/core";
import type { Cache, Clock } from "@patchbay/core/ports";
import { loadAuthority, type Authority } from "@patchbay/pki";
import { readKept, SECRET_KEY } from "./kept.ts";

/** Who signs, and all whose certificates are believed, PEM. */
export interface OwnAuthority {
  readonly authority: Authority;
  readonly bundlePem: string;
}

/** Gives it as it is now; undefined: there is none, and will be none. */
export type ReadAuthority = () => Promise<OwnAuthority | undefined>;

/** @throws AppError with KUBE_NOT_FOUND while there is none, by what it gives */
export function authorityInSecret(
  secrets: Cache<Secret>,
  clock: Pick<Clock, "now">,
): () => Promise<OwnAuthority> {
  return async () => {
    await Promise.resolve();
    const { authority, contents } = readKept(secrets.find(SECRET_KEY) ?? {});
    if (authority !== undefined) {
      return { authority: loadAuthority(authority, clock), bundlePem: contents.bundlePem };
    }
    const object = `${SECRET_KEY.namespace}/${SECRET_KEY.name}`;
    throw new AppError("KUBE_NOT_FOUND", { resource: "the authority in secret", object });
  };
}
