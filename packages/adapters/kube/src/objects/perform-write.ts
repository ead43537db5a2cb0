// SPDX-License-Identifier: Apache-2.0
// How is a planned write of a whole object done?
import type { KubeObject, ResourceType } from "@patchbay/api";
import type { Store } from "@patchbay/core/ports";

/** One write; an update is of the version that the object names. */
interface PlannedWrite<T extends KubeObject> {
  readonly kind: "create" | "update" | "delete";
  readonly object: T;
}

/** May be repeated: what was seen too long ago is refused, and seen again. */
export async function performWrite<T extends KubeObject>(
  store: Pick<Store, "create" | "update" | "delete">,
  type: ResourceType<T>,
  { kind, object }: PlannedWrite<T>,
): Promise<void> {
  const { name, namespace = "", uid } = object.metadata;
  switch (kind) {
    case "create":
      await store.create(type, object);
      return;
    case "update":
      await store.update(type, object);
      return;
    case "delete":
      await store.delete(type, { namespace, name }, uid === undefined ? {} : { uid });
  }
}
