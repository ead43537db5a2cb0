// SPDX-License-Identifier: Apache-2.0
// Writes one slice.
import { ENDPOINT_SLICES } from "@patchbay/api";
import type { SliceAction } from "@patchbay/core";
import type { Store } from "@patchbay/core/ports";

/** May be repeated: what is behind the server is refused, and seen again. */
export async function performSliceAction(
  store: Pick<Store, "create" | "update" | "delete">,
  { kind, slice }: SliceAction,
): Promise<void> {
  const { name, namespace = "", uid } = slice.metadata;
  switch (kind) {
    case "create":
      await store.create(ENDPOINT_SLICES, slice);
      return;
    case "update":
      await store.update(ENDPOINT_SLICES, slice);
      return;
    case "delete":
      await store.delete(ENDPOINT_SLICES, { namespace, name }, uid === undefined ? {} : { uid });
  }
}
