// SPDX-License-Identifier: Apache-2.0
// Which slices does a Service with a selector have? Pure.
import {
  isPodFinished,
  type Endpoint,
  type EndpointPort,
  type EndpointSlice,
  type Pod,
  type Service,
  type ServicePort,
} from "@patchbay/api";
import { slicesOfParts, type ServicePart } from "@patchbay/core";

/** Who writes these slices, in their label. */
export const SLICE_WRITER = "service-net.patchbay.io";

/** Whether its pods are to be found: somebody else writes the slices of one without selector. */
export function isSelecting({ spec }: Service): boolean {
  return Object.keys(spec.selector ?? {}).length > 0 && spec.type !== "ExternalName";
}

/** Whether the Service is for the pod. */
export function selects({ metadata, spec }: Service, pod: Pod): boolean {
  const labels = pod.metadata.labels ?? {};
  return (
    metadata.namespace === pod.metadata.namespace &&
    Object.entries(spec.selector ?? {}).every(([key, value]) => labels[key] === value)
  );
}

/** The number of the port in that pod; undefined: it has none of that name. */
function targetOf({ port, protocol = "TCP", targetPort = port }: ServicePort, pod: Pod) {
  if (typeof targetPort === "number") return targetPort;
  return pod.spec.containers
    .flatMap(({ ports = [] }) => ports)
    .find((known) => known.name === targetPort && (known.protocol ?? "TCP") === protocol)
    ?.containerPort;
}

function portsOf({ spec }: Service, pod: Pod): readonly EndpointPort[] {
  return (spec.ports ?? []).flatMap((port) => {
    const number = targetOf(port, pod);
    const { name = "", protocol = "TCP" } = port;
    return number === undefined ? [] : [{ name, port: number, protocol }];
  });
}

function isReady({ status }: Pod): boolean {
  return (status?.conditions ?? []).some(
    ({ type, status }) => type === "Ready" && status === "True",
  );
}

function endpointOf(service: Service, pod: Pod, address: string): Endpoint {
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

/** A pod's part in a Service; undefined: it has none. */
function partOf(service: Service, pod: Pod): ServicePart | undefined {
  const address = pod.status?.podIP ?? "";
  const isOut = address === "" || isPodFinished(pod) || pod.spec.hostNetwork === true;
  if (isOut || !selects(service, pod)) return undefined;
  const ports = portsOf(service, pod);
  if (ports.length === 0 && (service.spec.ports ?? []).length > 0) return undefined;
  return { addressType: "IPv4", ports, endpoint: endpointOf(service, pod, address) };
}

/** The slices of a Service; none where somebody else writes them. */
export function wantedSlices(service: Service, pods: readonly Pod[]): readonly EndpointSlice[] {
  if (!isSelecting(service)) return [];
  const parts = pods.flatMap((pod) => partOf(service, pod) ?? []);
  const { name: stem } = service.metadata;
  return slicesOfParts({ service, writer: SLICE_WRITER, stem }, parts);
}
