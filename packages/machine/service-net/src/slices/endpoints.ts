// SPDX-License-Identifier: Apache-2.0
// The Endpoints of a Service: the same as its slices in the older form, which older clients read (`kubectl describe service`
// before 1.31, for one). Pure. Source: Kubernetes pkg/controller/endpoint/endpoints_controller.go.
import type {
  Endpoint,
  Endpoints,
  EndpointsAddress,
  EndpointSlice,
  EndpointsSubset,
  Service,
} from "@patchbay/api";
import { isEqual } from "@patchbay/core";

/** Says of a headless Service that it is one. Source: Kubernetes core/v1 IsHeadlessService. */
const HEADLESS_LABEL = "service.kubernetes.io/headless";

/** What is to be written of a Service's Endpoints. */
export interface EndpointsAction {
  readonly kind: "create" | "update";
  readonly object: Endpoints;
}

function addressOf({ addresses, hostname, nodeName, targetRef }: Endpoint): EndpointsAddress {
  return {
    ip: addresses[0] ?? "",
    ...(hostname !== undefined && { hostname }),
    ...(nodeName !== undefined && { nodeName }),
    ...(targetRef !== undefined && { targetRef }),
  };
}

function inOrder(endpoints: readonly Endpoint[]): readonly EndpointsAddress[] {
  return endpoints.map(addressOf).sort((a, b) => (a.ip < b.ip ? -1 : 1));
}

function subsetOf(slices: readonly EndpointSlice[]): EndpointsSubset {
  const endpoints = slices.flatMap((slice) => slice.endpoints ?? []);
  const ready = inOrder(endpoints.filter(({ conditions }) => conditions?.ready === true));
  // Who goes is in slices alone.
  const waiting = inOrder(
    endpoints.filter(
      ({ conditions }) => conditions?.ready !== true && conditions?.terminating !== true,
    ),
  );
  const ports = slices[0]?.ports ?? [];
  return {
    ...(ready.length > 0 && { addresses: ready }),
    ...(waiting.length > 0 && { notReadyAddresses: waiting }),
    ...(ports.length > 0 && {
      ports: ports.map(({ name = "", port = 0, protocol = "TCP" }) => ({
        ...(name !== "" && { name }),
        port,
        protocol,
      })),
    }),
  };
}

function hasAddresses({ addresses, notReadyAddresses }: EndpointsSubset): boolean {
  return addresses !== undefined || notReadyAddresses !== undefined;
}

function isHeadless({ spec }: Service): boolean {
  return spec.clusterIP === "None";
}

function wantedEndpoints(service: Service, slices: readonly EndpointSlice[]): Endpoints {
  const { name, namespace = "", uid = "", labels } = service.metadata;
  const groups = Map.groupBy(slices, ({ ports }) => JSON.stringify(ports));
  const subsets = [...groups.values()].map(subsetOf).filter(hasAddresses);
  return {
    apiVersion: "v1",
    kind: "Endpoints",
    metadata: {
      name,
      namespace,
      labels: { ...labels, ...(isHeadless(service) && { [HEADLESS_LABEL]: "" }) },
      // The server takes them away with the Service.
      ownerReferences: [{ apiVersion: "v1", kind: "Service", name, uid, controller: true }],
    },
    ...(subsets.length > 0 && { subsets }),
  };
}

function shown({ metadata, subsets = [] }: Endpoints): unknown {
  const { labels = {}, ownerReferences = [] } = metadata;
  return [labels, ownerReferences.map(({ uid }) => uid), subsets];
}

/** What makes the Endpoints of a Service say what its slices say; undefined: they do. */
export function planEndpoints(
  service: Service,
  slices: readonly EndpointSlice[],
  known: Endpoints | undefined,
): EndpointsAction | undefined {
  const object = wantedEndpoints(service, slices);
  if (known === undefined) return { kind: "create", object };
  if (isEqual(shown(known), shown(object))) return undefined;
  const { resourceVersion = "" } = known.metadata;
  return {
    kind: "update",
    object: { ...object, metadata: { ...object.metadata, resourceVersion } },
  };
}
