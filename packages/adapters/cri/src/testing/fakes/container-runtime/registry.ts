// SPDX-License-Identifier: Apache-2.0
import type { ContainerImage, RegistryCredentials } from "@patchbay/core/interfaces";
import { listNames, refusal } from "./records.ts";

interface Offer {
  readonly image: ContainerImage;
  readonly password: string | undefined;
}

export class FakeRegistry {
  readonly #offers = new Map<string, Offer>();

  /** Offers the image under all its names, optionally only with the password. */
  put(image: ContainerImage, password: string | undefined): void {
    for (const name of listNames(image)) this.#offers.set(name, { image, password });
  }

  /** @throws AppError with CRI_FAILED when the image does not exist or the password is wrong */
  pull(reference: string, credentials: RegistryCredentials | undefined): ContainerImage {
    const offer = this.#offers.get(reference);
    if (offer === undefined) throw refusal("PullImage", "NOT_FOUND", `no ${reference} anywhere`);
    if (offer.password !== undefined && credentials?.password !== offer.password) {
      throw refusal("PullImage", "UNKNOWN", `${reference}: 401 Unauthorized`);
    }
    return offer.image;
  }
}
