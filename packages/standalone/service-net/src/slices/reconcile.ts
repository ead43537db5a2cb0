// SPDX-License-Identifier: Apache-2.0
import { ENDPOINT_SLICES, ENDPOINTS } from "@patchbay/api";
import { planSlices } from "@patchbay/core/services";
import { done, parseKey, performWrite, type Next } from "@patchbay/kube";
import type { Store } from "@patchbay/core/interfaces";
import { listSlices, type ServiceObjects } from "../objects.ts";
import { planEndpoints, isSelecting, SLICE_WRITER, buildSlices } from "./plan.ts";

/** Writes the EndpointSlices and Endpoints of a Service. When the Service is deleted, the garbage collector deletes them. */
export async function reconcileSlices(
  key: string,
  { services, pods, slices, endpoints }: ServiceObjects,
  store: Store,
): Promise<Next> {
  const service = services.find(parseKey(key));
  if (service === undefined || service.metadata.deletionTimestamp !== undefined) return done();
  const namespacePods = pods.listBy("namespace", service.metadata.namespace ?? "");
  const wantedSlices = buildSlices(service, namespacePods);
  for (const { kind, slice } of planSlices(wantedSlices, listSlices(slices, key), SLICE_WRITER)) {
    await performWrite(store, ENDPOINT_SLICES, { kind, object: slice });
  }
  // Does not write the Endpoints of a Service without a selector, because users write them.
  if (!isSelecting(service)) return done();
  const change = planEndpoints(service, wantedSlices, endpoints.find(parseKey(key)));
  if (change !== undefined) await performWrite(store, ENDPOINTS, change);
  return done();
}
