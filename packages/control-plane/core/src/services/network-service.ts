// SPDX-License-Identifier: Apache-2.0
// EndpointSlices of Services for VMs on a secondary network. The slices contain only addresses that CNI assigned.
import type {
  Attachment,
  NetworkAttachmentDefinition,
  VirtualMachineInstance,
} from "@patchbay/api";
import type {
  Endpoint,
  EndpointPort,
  EndpointSlice,
  Service,
  ServicePort,
} from "@patchbay/api/kubernetes";
import { parseIp, printAddress, type IpPrefix } from "@patchbay/api/values";
import { sha256Hex } from "../nics/sha256.ts";
import { buildHostname } from "../vm/spec/guest-names.ts";
import { findByName, ifacesOf, networksOf } from "../nics/nics.ts";
import { findCondition, READY } from "../status/conditions.ts";
import { parseServiceRequest, type NetworkRequest } from "./service-request.ts";
import {
  findAllowedAddresses,
  parseServiceAddress,
  type ServiceAddress,
} from "./allowed-addresses.ts";
import { slicesOfParts, type ServicePart } from "./slices.ts";

export const NETWORK_SLICE_WRITER = "virt-controller.patchbay.io";

export interface NetworkServiceFacts {
  readonly service: Service;
  readonly vmis: readonly VirtualMachineInstance[];
  readonly definition: NetworkAttachmentDefinition | undefined;
  readonly trustedNamespaces: readonly string[];
}

interface NetworkServicePlan {
  readonly slices: readonly EndpointSlice[];
  readonly refusal?: string;
}

/** Number of hash digits in slice names. The hash of the Service's UID gives the slices of a re-created Service new names. */
const UID_DIGITS = 10;
/** Valid hostname of an endpoint. Source: Kubernetes validation (RFC 1123 label). */
const DNS_LABEL = /^[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?$/;

export function selectsVmi(
  { metadata }: Service,
  { selector }: NetworkRequest,
  vmi: VirtualMachineInstance,
): boolean {
  const labels = vmi.metadata.labels ?? {};
  return (
    metadata.namespace === vmi.metadata.namespace &&
    [...selector].every(([key, value]) => Object.hasOwn(labels, key) && labels[key] === value)
  );
}

function hasGuestEnded({ status }: VirtualMachineInstance): boolean {
  return status?.phase === "Succeeded" || status?.phase === "Failed";
}

/** Checks whether traffic to the pod NIC reaches the guest's NIC. */
function isPlugged({ status }: VirtualMachineInstance, attachment: Attachment): boolean {
  const iface = findByName(status?.interfaces, attachment.name);
  if (iface === undefined || iface.linkState === "down") return false;
  const { podInterfaceName = attachment.podInterfaceName, hotplug } = iface;
  return hotplug?.phase === "Ready" && podInterfaceName === attachment.podInterfaceName;
}

/**
 * Returns the addresses that both CNI and the guest report. Until the guest reports addresses, returns all addresses from CNI. Learned
 * addresses confirm nothing.
 */
function listConfirmedAddresses(
  { status }: VirtualMachineInstance,
  { name, ips = [] }: Attachment,
): readonly string[] {
  const { addressInfo, ipAddresses = [] } = findByName(status?.interfaces, name) ?? {};
  if (addressInfo === undefined || addressInfo.source === "learned") return ips;
  return ips.filter((text) => {
    const parsed = parseIp(text);
    return parsed !== undefined && ipAddresses.includes(printAddress(parsed));
  });
}

/** Returns the port number. Returns undefined if the interface has no port with the requested name and protocol. */
function resolveTargetPort(
  { port, protocol = "TCP", targetPort = port }: ServicePort,
  vmi: VirtualMachineInstance,
  ifaceName: string,
): number | undefined {
  if (typeof targetPort === "number") return targetPort;
  const { ports = [] } = findByName(ifacesOf(vmi.spec), ifaceName) ?? {};
  return ports.find(
    (candidate) => candidate.name === targetPort && (candidate.protocol ?? "TCP") === protocol,
  )?.port;
}

function resolvePorts(
  { spec }: Service,
  vmi: VirtualMachineInstance,
  ifaceName: string,
): readonly EndpointPort[] | undefined {
  const servicePorts = spec.ports ?? [];
  const ports = servicePorts.flatMap((port): readonly EndpointPort[] => {
    const number = resolveTargetPort(port, vmi, ifaceName);
    const { name = "", protocol = "TCP" } = port;
    return number === undefined ? [] : [{ name, port: number, protocol }];
  });
  return servicePorts.length > 0 && ports.length === 0 ? undefined : ports;
}

function findPublishedHostname(
  { metadata }: Service,
  vmi: VirtualMachineInstance,
): string | undefined {
  const hostname = buildHostname(vmi);
  const hasPublishedName = vmi.spec.subdomain === metadata.name && DNS_LABEL.test(hostname);
  return hasPublishedName ? hostname : undefined;
}

function buildEndpoint(
  service: Service,
  vmi: VirtualMachineInstance,
  target: { readonly attachment: Attachment; readonly address: ServiceAddress },
): Endpoint {
  const { name, namespace = "", uid = "", deletionTimestamp } = vmi.metadata;
  const { nodeName, conditions } = vmi.status ?? {};
  const isReady = findCondition(conditions, READY)?.status === "True";
  const serving = isReady && isPlugged(vmi, target.attachment);
  const terminating = deletionTimestamp !== undefined;
  const isPublished = service.spec.publishNotReadyAddresses === true;
  const hostname = findPublishedHostname(service, vmi);
  return {
    addresses: [target.address.text],
    conditions: { ready: isPublished || (serving && !terminating), serving, terminating },
    ...(hostname !== undefined && { hostname }),
    ...(nodeName !== undefined && { nodeName }),
    targetRef: { kind: "VirtualMachineInstance", namespace, name, uid },
  };
}

function listParts(
  service: Service,
  vmi: VirtualMachineInstance,
  allowed: { readonly network: string; readonly prefixes: readonly IpPrefix[] },
): readonly ServicePart[] {
  const attachments = (vmi.status?.attachments ?? []).filter(
    ({ networkName, state }) => networkName === allowed.network && state === "Attached",
  );
  return attachments.flatMap((attachment) => {
    const ports = resolvePorts(service, vmi, attachment.name);
    if (ports === undefined) return [];
    const addresses = listConfirmedAddresses(vmi, attachment).flatMap(
      (text) => parseServiceAddress(text, allowed.prefixes) ?? [],
    );
    return addresses.map((address) => ({
      addressType: address.addressType,
      ports,
      endpoint: buildEndpoint(service, vmi, { attachment, address }),
    }));
  });
}

export function networkServicePlan(facts: NetworkServiceFacts): NetworkServicePlan {
  const { service, vmis, definition, trustedNamespaces } = facts;
  const request = parseServiceRequest(service);
  if (request.kind === "none") return { slices: [] };
  if (request.kind === "refused") return { slices: [], refusal: request.message };
  const { request: networkRequest } = request;
  const allowed = findAllowedAddresses(networkRequest.network, definition, trustedNamespaces);
  if (allowed.kind === "refused") return { slices: [], refusal: allowed.message };
  const publishedNetwork = { network: networkRequest.network, prefixes: allowed.prefixes };
  const parts = vmis
    .filter((vmi) => !hasGuestEnded(vmi) && selectsVmi(service, networkRequest, vmi))
    .flatMap((vmi) => listParts(service, vmi, publishedNetwork));
  const { name, uid = "" } = service.metadata;
  const namePrefix = `${name}-${sha256Hex(uid).slice(0, UID_DIGITS)}`;
  return {
    slices: slicesOfParts({ service, writer: NETWORK_SLICE_WRITER, stem: namePrefix }, parts),
  };
}

/** Returns all fields of a VMI from which slices are built. If the fields are unchanged, no Service needs a reconcile. */
export function listServiceInputs(vmi: VirtualMachineInstance): unknown {
  const { metadata, spec, status } = vmi;
  return [
    metadata.uid,
    metadata.labels,
    metadata.deletionTimestamp,
    spec.subdomain,
    spec.hostname,
    networksOf(spec),
    ifacesOf(spec).map(({ name, ports }) => ({ name, ports })),
    hasGuestEnded(vmi),
    status?.nodeName,
    findCondition(status?.conditions, READY)?.status,
    status?.attachments?.map((attachment) => [
      attachment.name,
      attachment.networkName,
      attachment.podInterfaceName,
      attachment.state,
      listConfirmedAddresses(vmi, attachment),
      isPlugged(vmi, attachment),
    ]),
  ];
}
