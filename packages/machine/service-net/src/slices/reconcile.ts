// SPDX-License-Identifier: Apache-2.0
// One Service: what stands behind it is written as it is.
import { ENDPOINT_SLICES } from "@patchbay/api";
import { done, parseKey, type Next } from "@patchbay/kube";
import type { Store } from "@patchbay/core/ports";
import { slicesOf, type Objects } from "../objects.ts";
import { wantedSlices } from "./plan.ts";
import { planSlices, type SliceAction } from "./slices.ts";

/** May be repeated: what was seen too long ago is refused, and seen again. */
async function act(store: Store, { kind, slice }: SliceAction): Promise<void> {
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

/** One pass over one Service; of one that is gone the server removes the slices. */
export async function reconcileSlices(
  key: string,
  { services, pods, slices }: Objects,
  store: Store,
): Promise<Next> {
  const service = services.find(parseKey(key));
  if (service === undefined || service.metadata.deletionTimestamp !== undefined) return done();
  const inNamespace = pods.listBy("namespace", service.metadata.namespace ?? "");
  const wanted = wantedSlices(service, inNamespace);
  for (const action of planSlices(wanted, slicesOf(slices, key))) await act(store, action);
  return done();
}
