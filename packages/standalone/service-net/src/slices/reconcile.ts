// SPDX-License-Identifier: Apache-2.0
import { ENDPOINT_SLICES, ENDPOINTS } from "@patchbay/api";
import { planSlices } from "@patchbay/core/services";
import { done, parseKey, performWrite, type Next } from "@patchbay/kube";
import type { Store } from "@patchbay/core/interfaces";
import { listSlices, type Objects } from "../objects.ts";
import { planEndpoints, isSelecting, SLICE_WRITER, buildSlices } from "./plan.ts";

/** The API server deletes slices and Endpoints with the Service. */
export async function reconcileSlices(
  key: string,
  { services, pods, slices, endpoints }: Objects,
  store: Store,
): Promise<Next> {
  const service = services.find(parseKey(key));
  if (service === undefined || service.metadata.deletionTimestamp !== undefined) return done();
  const inNamespace = pods.listBy("namespace", service.metadata.namespace ?? "");
  const wanted = buildSlices(service, inNamespace);
  for (const { kind, slice } of planSlices(wanted, listSlices(slices, key), SLICE_WRITER)) {
    await performWrite(store, ENDPOINT_SLICES, { kind, object: slice });
  }
  // Other clients also write the Endpoints.
  if (!isSelecting(service)) return done();
  const change = planEndpoints(service, wanted, endpoints.find(parseKey(key)));
  if (change !== undefined) await performWrite(store, ENDPOINTS, change);
  return done();
}
