// SPDX-License-Identifier: Apache-2.0
// Images that a runtime in memory can fetch, some of them only by who knows the password.
import type { ContainerImage, RegistryCredentials } from "@patchbay/core/ports";
import { namesOf, refusal } from "./records.ts";

interface Offer {
  readonly image: ContainerImage;
  readonly password: string | undefined;
}

/** A registry in memory. */
export class FakeRegistry {
  readonly #offers = new Map<string, Offer>();

  /** Offers the image by each of its names; with a password, to who knows that. */
  put(image: ContainerImage, password: string | undefined): void {
    for (const name of namesOf(image)) this.#offers.set(name, { image, password });
  }

  /** @throws AppError with CRI_FAILED when there is none of that name, or who asks may not have it */
  pull(reference: string, credentials: RegistryCredentials | undefined): ContainerImage {
    const offer = this.#offers.get(reference);
    if (offer === undefined) throw refusal("PullImage", "NOT_FOUND", `no ${reference} anywhere`);
    if (offer.password !== undefined && credentials?.password !== offer.password) {
      throw refusal("PullImage", "UNKNOWN", `${reference}: 401 Unauthorized`);
    }
    return offer.image;
  }
}
