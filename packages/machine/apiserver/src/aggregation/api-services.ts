// SPDX-License-Identifier: Apache-2.0
// Which group versions other servers have, and where those servers are.
import { type Peer, toPem } from "../backend/connections.ts";
import {
  type Resolution,
  resolveService,
  serverNameOf,
  toServiceReference,
} from "../backend/service-address.ts";
import { isFields, listOf, textAt, valueAt } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import type { Store } from "../storage/store.ts";

export const API_SERVICES_BUCKET = "apiregistration.k8s.io/apiservices";

/** Its resources, and its OpenAPI document. */
const PATH = /^(?:\/openapi\/v3)?\/apis\/([^/?]+)\/([^/?]+)/;

/** Whether another server has the group version. */
export function isAggregated(apiService: KubeObject): boolean {
  return isFields(valueAt(apiService, "spec", "service"));
}

/** The APIService that a path belongs to, where another server has it. */
export function findByPath(store: Store, url: string): KubeObject | undefined {
  const [, group, version] = PATH.exec(url) ?? [];
  if (group === undefined || version === undefined) {
    return undefined;
  }
  const address = { bucket: API_SERVICES_BUCKET, namespace: "", name: `${version}.${group}` };
  const object = store.find(address)?.view();
  return object !== undefined && isAggregated(object) ? object : undefined;
}

/** The condition that says whether requests are passed on; undefined before the first look. */
export function availableCondition(apiService: KubeObject): unknown {
  return listOf(valueAt(apiService, "status", "conditions")).find(
    (condition) => textAt(condition, "type") === "Available",
  );
}

/** Where the server of an APIService listens. */
export function resolveApiService(store: Store, apiService: KubeObject): Resolution {
  return resolveService(store, toServiceReference(valueAt(apiService, "spec", "service")));
}

/** The server of an APIService, as it must prove itself. */
export function toPeer(
  apiService: KubeObject,
  resolution: Extract<Resolution, { found: true }>,
): Peer {
  return {
    at: resolution.at,
    serverName: serverNameOf(toServiceReference(valueAt(apiService, "spec", "service"))),
    caPem: toPem(textAt(apiService, "spec", "caBundle")),
    insecure: valueAt(apiService, "spec", "insecureSkipTLSVerify") === true,
  };
}
