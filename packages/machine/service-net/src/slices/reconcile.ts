// SPDX-License-Identifier: Apache-2.0
// One Service: what stands behind it is written as it is.
import { ENDPOINT_SLICES, ENDPOINTS } from "@patchbay/api";
import { planSlices } from "@patchbay/core";
import { done, parseKey, performWrite, type Next } from "@patchbay/kube";
import type { Store } from "@patchbay/core/ports";
import { slicesOf, type Objects } from "../objects.ts";
import { planEndpoints } from "./endpoints.ts";
import { isSelecting, SLICE_WRITER, wantedSlices } from "./plan.ts";

/** One pass over one Service; of one that is gone the server removes the slices. */
export async function reconcileSlices(
  key: string,
  { services, pods, slices, endpoints }: Objects,
  store: Store,
): Promise<Next> {
  const service = services.find(parseKey(key));
  if (service === undefined || service.metadata.deletionTimestamp !== undefined) return done();
  const inNamespace = pods.listBy("namespace", service.metadata.namespace ?? "");
  const wanted = wantedSlices(service, inNamespace);
  for (const { kind, slice } of planSlices(wanted, slicesOf(slices, key), SLICE_WRITER)) {
    await performWrite(store, ENDPOINT_SLICES, { kind, object: slice });
  }
  // Somebody else writes those of a Service without selector, too.
  if (!isSelecting(service)) return done();
  const change = planEndpoints(service, wanted, endpoints.find(parseKey(key)));
  if (change !== undefined) await performWrite(store, ENDPOINTS, change);
  return done();
}
