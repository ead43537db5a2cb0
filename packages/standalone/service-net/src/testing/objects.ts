// SPDX-License-Identifier: Apache-2.0
// Builders of Services, pods and slices.
import type { Endpoint, EndpointSlice, Pod, Service } from "@patchbay/api/kubernetes";
import { omitUndefined } from "@patchbay/base";
import type { Ranges } from "../forward/forwards.ts";
import { parseNetwork, type Network } from "../forward/network.ts";

function networkAt(text: string): Network {
  const network = parseNetwork(text);
  if (network === undefined) throw new Error(`${text} is no network`);
  return network;
}

export const RANGES: Ranges = {
  services: networkAt("10.96.0.0/16"),
  dns: "10.96.0.10",
};

/** Changes of default fields; undefined removes a field. */
type Change<T> = { readonly [Name in keyof T]?: T[Name] | undefined };

/** Builds Service `web` in namespace `blue`, with port 80. */
export function aService(
  spec: Change<Service["spec"]> = {},
  metadata: Partial<Service["metadata"]> = {},
): Service {
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: { name: "web", namespace: "blue", uid: "service-uid", ...metadata },
    spec: omitUndefined({
      type: "ClusterIP",
      clusterIP: "10.96.0.5",
      selector: { app: "web" },
      ports: [{ port: 80, protocol: "TCP", targetPort: 8080 }],
      ...spec,
    }),
  };
}

/** Builds a ready pod that `web` selects. */
export function aPod(
  name: string,
  podIP: string,
  change: {
    readonly metadata?: Change<Pod["metadata"]>;
    readonly spec?: Change<Pod["spec"]>;
    readonly status?: Change<NonNullable<Pod["status"]>>;
  } = {},
): Pod {
  const labels = { app: "web" };
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: omitUndefined({
      name,
      namespace: "blue",
      uid: `${name}-uid`,
      labels,
      ...change.metadata,
    }),
    spec: omitUndefined({
      nodeName: "node1",
      containers: [{ name: "c", image: "i" }],
      ...change.spec,
    }),
    status: omitUndefined({
      phase: "Running",
      podIP,
      conditions: [{ type: "Ready", status: "True" }],
      ...change.status,
    }),
  };
}

/** Builds a slice of `web`. */
export function aSlice(
  endpoints: readonly Endpoint[],
  change: Change<EndpointSlice> = {},
): EndpointSlice {
  return omitUndefined({
    apiVersion: "discovery.k8s.io/v1",
    kind: "EndpointSlice",
    metadata: {
      name: "web-0",
      namespace: "blue",
      labels: { "kubernetes.io/service-name": "web" },
    },
    addressType: "IPv4",
    endpoints,
    ports: [{ name: "", port: 8080, protocol: "TCP" }],
    ...change,
  });
}
