// SPDX-License-Identifier: Apache-2.0
// Paths, backends and priorities of APIServices. Source of the priorities: kube-apiserver, apiVersionPriorities.
import { type Peer, toPem } from "../backend/connections.ts";
import {
  type Resolution,
  resolveService,
  toServerName,
  toServiceReference,
} from "../backend/service-address.ts";
import { isFields, asList, textAt, valueAt } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import type { Store } from "../storage/store.ts";

export const API_SERVICES_BUCKET = "apiregistration.k8s.io/apiservices";

/** Matches the paths of resources and of OpenAPI documents, and captures their group and version. */
const AGGREGATED_PATH = /^(?:\/openapi\/v3)?\/apis\/([^/?]+)\/([^/?]+)/;

/** Returns whether an extension API server serves the group version. */
export function isAggregated(apiService: KubeObject): boolean {
  return isFields(valueAt(apiService, "spec", "service"));
}

export function findApiServiceByPath(store: Store, url: string): KubeObject | undefined {
  const [, group, version] = AGGREGATED_PATH.exec(url) ?? [];
  if (group === undefined || version === undefined) {
    return undefined;
  }
  const address = { bucket: API_SERVICES_BUCKET, namespace: "", name: `${version}.${group}` };
  const object = store.find(address)?.view();
  return object !== undefined && isAggregated(object) ? object : undefined;
}

export function findAvailableCondition(apiService: KubeObject): unknown {
  return asList(valueAt(apiService, "status", "conditions")).find(
    (condition) => textAt(condition, "type") === "Available",
  );
}

export function resolveApiService(store: Store, apiService: KubeObject): Resolution {
  return resolveService(store, toServiceReference(valueAt(apiService, "spec", "service")));
}

export function toPeer(
  apiService: KubeObject,
  resolution: Extract<Resolution, { isResolved: true }>,
): Peer {
  return {
    addresses: resolution.addresses,
    serverName: toServerName(toServiceReference(valueAt(apiService, "spec", "service"))),
    caPem: toPem(textAt(apiService, "spec", "caBundle")),
    isInsecure: valueAt(apiService, "spec", "insecureSkipTLSVerify") === true,
  };
}

/** Priorities of a group and its version in discovery. Groups and versions with higher priorities are listed first. */
export interface Priority {
  readonly group: number;
  readonly version: number;
}

const BUILT_IN_GROUP_PRIORITIES: Readonly<Record<string, number>> = {
  "": 18_000,
  apps: 17_800,
  "events.k8s.io": 17_750,
  "authentication.k8s.io": 17_700,
  "authorization.k8s.io": 17_600,
  autoscaling: 17_500,
  batch: 17_400,
  "certificates.k8s.io": 17_300,
  "networking.k8s.io": 17_200,
  policy: 17_100,
  "rbac.authorization.k8s.io": 17_000,
  "storage.k8s.io": 16_800,
  "apiextensions.k8s.io": 16_700,
  "admissionregistration.k8s.io": 16_700,
  "scheduling.k8s.io": 16_600,
  "coordination.k8s.io": 16_500,
  "node.k8s.io": 16_300,
  "discovery.k8s.io": 16_200,
  "flowcontrol.apiserver.k8s.io": 16_100,
};

/** Priority of the groups of custom resources. It is low, so that discovery lists these groups after the built-in groups. */
const CUSTOM_PRIORITY: Priority = { group: 1000, version: 100 };

export function localPriority(group: string, version: string, isCustom: boolean): Priority {
  if (isCustom) {
    return CUSTOM_PRIORITY;
  }
  const newest = group === "autoscaling" && version === "v2" ? 30 : 15;
  return { group: BUILT_IN_GROUP_PRIORITIES[group] ?? 16_000, version: group === "" ? 1 : newest };
}
