// SPDX-License-Identifier: Apache-2.0
// How does an API server come to have an object as a manifest says? As often as wanted, and also after a change.
import type { KubeObject, ResourceType } from "@patchbay/api";
import { isAppError } from "@patchbay/core";
import type { Store } from "@patchbay/core/ports";
import { typeOf } from "./types.ts";

/** Members that say which object it is; the rest is what it is to be. */
const IDENTITY: readonly string[] = ["apiVersion", "kind", "metadata"];

/**
 * Creates the object, or sets labels and fields of the one that is there. What is the same already is not written.
 * @throws AppError with what the store throws
 */
export async function keepObject(
  store: Store,
  type: ResourceType<KubeObject>,
  object: KubeObject,
): Promise<void> {
  try {
    await store.create(type, object);
  } catch (error) {
    if (!isAppError(error, "KUBE_ALREADY_EXISTS")) throw error;
    const { labels } = object.metadata;
    const own = Object.entries(object).filter(([name]) => !IDENTITY.includes(name));
    const fields = {
      ...Object.fromEntries(own),
      ...(labels === undefined ? {} : { metadata: { labels } }),
    };
    await store.patch(type, object.metadata, { type: "merge", fields });
  }
}

/**
 * Keeps the objects of manifests, one after the other.
 * @throws AppError with API_MALFORMED for a kind that no manifest has, and with what the store throws
 */
export async function keepManifests(store: Store, objects: readonly KubeObject[]): Promise<void> {
  for (const object of objects) await keepObject(store, typeOf(object), object);
}
