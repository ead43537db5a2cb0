// SPDX-License-Identifier: Apache-2.0
// Codec of the annotation `k8s.v1.cni.cncf.io/network-status`. Source: NPWG de-facto standard 1.3 section 5.

import { isJsonObject, parseJson } from "../values/json.ts";

/** One network that the pod has. */
export interface NetworkStatus {
  /** NAMESPACE/NAME of the network definition, or the name in the CNI configuration for the default network. */
  readonly name: string;
  /** NIC in the pod. */
  readonly interface?: string;
  /** Addresses without prefix length. */
  readonly ips?: readonly string[];
  readonly mac?: string;
  readonly mtu?: number;
  readonly default?: boolean;
  readonly dns?: unknown;
  readonly "device-info"?: unknown;
  readonly gateway?: readonly string[];
}

function isNetworkStatus(value: unknown): value is NetworkStatus {
  return isJsonObject(value) && typeof value["name"] === "string";
}

/** Reads the annotation; what is missing or malformed is an empty list, and so is each malformed entry. */
export function parseNetworkStatus(text: string | undefined): readonly NetworkStatus[] {
  const value = parseJson(text);
  // Foreign text: a reader of status has nothing to refuse, it sees no network.
  return Array.isArray(value) ? value.filter(isNetworkStatus) : [];
}

/** Writes the annotation; order is kept. */
export function printNetworkStatus(entries: readonly NetworkStatus[]): string {
  return JSON.stringify(entries);
}
