// SPDX-License-Identifier: Apache-2.0
import {
  isPodFinished,
  type Endpoint,
  type EndpointPort,
  type EndpointSlice,
  type Pod,
  type Service,
  type ServicePort,
  type Endpoints,
  type EndpointsAddress,
  type EndpointsSubset,
} from "@patchbay/api/kubernetes";
import { firstByKey, memoize } from "@patchbay/api/values";
import { slicesOfParts, type ServicePart } from "@patchbay/core/services";
import { isEqual } from "@patchbay/base";

export const SLICE_WRITER = "service-net.patchbay.io";

/** Returns whether the Service's selector applies. An ExternalName Service ignores its selector. */
export function isSelecting({ spec }: Service): boolean {
  return Object.keys(spec.selector ?? {}).length > 0 && spec.type !== "ExternalName";
}

export function selects({ metadata, spec }: Service, pod: Pod): boolean {
  const labels = pod.metadata.labels ?? {};
  return (
    metadata.namespace === pod.metadata.namespace &&
    Object.entries(spec.selector ?? {}).every(([key, value]) => labels[key] === value)
  );
}

const portByName = memoize(({ spec }: Pod) =>
  firstByKey(
    spec.containers.flatMap(({ ports = [] }) => ports),
    ({ name = "", protocol = "TCP" }) => `${protocol} ${name}`,
  ),
);

function resolveTargetPort({ port, protocol = "TCP", targetPort = port }: ServicePort, pod: Pod) {
  if (typeof targetPort === "number") return targetPort;
  return portByName(pod).get(`${protocol} ${targetPort}`)?.containerPort;
}

function resolvePorts({ spec }: Service, pod: Pod): readonly EndpointPort[] {
  return (spec.ports ?? []).flatMap((port) => {
    const number = resolveTargetPort(port, pod);
    const { name = "", protocol = "TCP" } = port;
    return number === undefined ? [] : [{ name, port: number, protocol }];
  });
}

function isReady({ status }: Pod): boolean {
  return (status?.conditions ?? []).some(
    ({ type, status }) => type === "Ready" && status === "True",
  );
}

function toEndpoint(service: Service, pod: Pod, address: string): Endpoint {
  const { name, namespace = "", uid = "", deletionTimestamp } = pod.metadata;
  const { hostname, subdomain, nodeName } = pod.spec;
  const serving = isReady(pod);
  const terminating = deletionTimestamp !== undefined;
  const isPublished = service.spec.publishNotReadyAddresses === true;
  return {
    addresses: [address],
    conditions: { ready: isPublished || (serving && !terminating), serving, terminating },
    ...(hostname !== undefined && subdomain === service.metadata.name && { hostname }),
    ...(nodeName !== undefined && { nodeName }),
    targetRef: { kind: "Pod", namespace, name, uid },
  };
}

function toServicePart(service: Service, pod: Pod): ServicePart | undefined {
  const address = pod.status?.podIP ?? "";
  const isExcluded = address === "" || isPodFinished(pod) || pod.spec.hostNetwork === true;
  if (isExcluded || !selects(service, pod)) return undefined;
  const ports = resolvePorts(service, pod);
  if (ports.length === 0 && (service.spec.ports ?? []).length > 0) return undefined;
  return { addressType: "IPv4", ports, endpoint: toEndpoint(service, pod, address) };
}

export function buildSlices(service: Service, pods: readonly Pod[]): readonly EndpointSlice[] {
  if (!isSelecting(service)) return [];
  const parts = pods.flatMap((pod) => toServicePart(service, pod) ?? []);
  const { name: namePrefix } = service.metadata;
  return slicesOfParts({ service, writer: SLICE_WRITER, stem: namePrefix }, parts);
}

/** Label of the Endpoints of a headless Service. Source: Kubernetes core/v1 IsHeadlessService. */
const HEADLESS_LABEL = "service.kubernetes.io/headless";

interface EndpointsAction {
  readonly kind: "create" | "update";
  readonly object: Endpoints;
}

function toEndpointsAddress({
  addresses,
  hostname,
  nodeName,
  targetRef,
}: Endpoint): EndpointsAddress {
  return {
    ip: addresses[0] ?? "",
    ...(hostname !== undefined && { hostname }),
    ...(nodeName !== undefined && { nodeName }),
    ...(targetRef !== undefined && { targetRef }),
  };
}

function sortedAddresses(endpoints: readonly Endpoint[]): readonly EndpointsAddress[] {
  return endpoints.map(toEndpointsAddress).sort((left, right) => (left.ip < right.ip ? -1 : 1));
}

function toSubset(slices: readonly EndpointSlice[]): EndpointsSubset {
  const endpoints = slices.flatMap((slice) => slice.endpoints ?? []);
  const readyAddresses = sortedAddresses(
    endpoints.filter(({ conditions }) => conditions?.ready === true),
  );
  // An Endpoints object does not list terminating pods.
  const notReadyAddresses = sortedAddresses(
    endpoints.filter(
      ({ conditions }) => conditions?.ready !== true && conditions?.terminating !== true,
    ),
  );
  const ports = slices[0]?.ports ?? [];
  return {
    ...(readyAddresses.length > 0 && { addresses: readyAddresses }),
    ...(notReadyAddresses.length > 0 && { notReadyAddresses }),
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

function buildEndpoints(service: Service, slices: readonly EndpointSlice[]): Endpoints {
  const { name, namespace = "", uid = "", labels } = service.metadata;
  const groups = Map.groupBy(slices, ({ ports }) => JSON.stringify(ports));
  const subsets = [...groups.values()].map(toSubset).filter(hasAddresses);
  return {
    apiVersion: "v1",
    kind: "Endpoints",
    metadata: {
      name,
      namespace,
      labels: { ...labels, ...(isHeadless(service) && { [HEADLESS_LABEL]: "" }) },
      ownerReferences: [{ apiVersion: "v1", kind: "Service", name, uid, controller: true }],
    },
    ...(subsets.length > 0 && { subsets }),
  };
}

function toComparedFields({ metadata, subsets = [] }: Endpoints): unknown {
  const { labels = {}, ownerReferences = [] } = metadata;
  return [labels, ownerReferences.map(({ uid }) => uid), subsets];
}

/** Plans the Endpoints for clients that do not read EndpointSlices. Source: Kubernetes endpoints_controller.go. */
export function planEndpoints(
  service: Service,
  slices: readonly EndpointSlice[],
  existingEndpoints: Endpoints | undefined,
): EndpointsAction | undefined {
  const object = buildEndpoints(service, slices);
  if (existingEndpoints === undefined) return { kind: "create", object };
  if (isEqual(toComparedFields(existingEndpoints), toComparedFields(object))) return undefined;
  const { resourceVersion = "" } = existingEndpoints.metadata;
  return {
    kind: "update",
    object: { ...object, metadata: { ...object.metadata, resourceVersion } },
  };
}
