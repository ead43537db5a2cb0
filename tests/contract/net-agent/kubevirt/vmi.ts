// SPDX-License-Identifier: Apache-2.0
// A VMI as KubeVirt's controllers read it, with KubeVirt's NIC names. Pure; all of it is KubeVirt's. Source: KubeVirt
// pkg/network/namescheme/networknamescheme.go, pkg/network/vmispec.
import { createHash } from "node:crypto";
import type { NetworkStatus } from "@patchbay/api/annotations";

/** Of `spec.domain.devices.interfaces`. */
export interface PlayedIface {
  readonly name: string;
  readonly bridge?: object;
  readonly masquerade?: object;
  readonly sriov?: object;
  /** A registered binding. */
  readonly binding?: { readonly name: string };
  readonly macAddress?: string;
  readonly state?: string;
}

/** Of `spec.networks`. */
export interface PlayedNetwork {
  readonly name: string;
  readonly pod?: object;
  readonly multus?: { readonly networkName: string; readonly default?: boolean };
}

/** Of `status.interfaces`. */
export interface PlayedStatus {
  readonly name: string;
  readonly podInterfaceName?: string;
  /** Its sources, joined by comma and blank. */
  readonly infoSource?: string;
}

/** Network definition of a registered binding, by name of the binding. */
export type Bindings = Readonly<Record<string, { readonly networkAttachmentDefinition?: string }>>;

export interface PlayedVmi {
  readonly namespace: string;
  readonly interfaces: readonly PlayedIface[];
  readonly networks: readonly PlayedNetwork[];
  readonly status: readonly PlayedStatus[];
  readonly bindings: Bindings;
}

/** NIC in the pod by name of the network. */
export type NameScheme = ReadonlyMap<string, string>;

const PRIMARY = "eth0";
const HASH_DIGITS = 11;

export function isAbsent({ state }: PlayedIface): boolean {
  return state === "absent";
}

export function isSecondary({ multus }: PlayedNetwork): boolean {
  return multus !== undefined && multus.default !== true;
}

function isPrimary({ pod, multus }: PlayedNetwork): boolean {
  return pod !== undefined || multus?.default === true;
}

/** `pod` and the prefix of the network name's hash. */
export function hashedName(networkName: string): string {
  const digest = createHash("sha256").update(networkName).digest("hex");
  return `pod${digest.slice(0, HASH_DIGITS)}`;
}

export function hashedScheme(networks: readonly PlayedNetwork[]): NameScheme {
  return new Map(
    networks.map((network) => [
      network.name,
      isSecondary(network) ? hashedName(network.name) : PRIMARY,
    ]),
  );
}

/** `net` and the position among the secondary networks, from 1. */
export function ordinalScheme(networks: readonly PlayedNetwork[]): NameScheme {
  const secondary = networks.filter(isSecondary).map(({ name }) => name);
  return new Map(
    networks.map(({ name }) => {
      const place = secondary.indexOf(name) + 1;
      return [name, place === 0 ? PRIMARY : `net${String(place)}`];
    }),
  );
}

/** Whether the pod's NICs have ordinal names, as before KubeVirt v1.0. */
export function isOrdinal(seen: readonly NetworkStatus[]): boolean {
  return seen.some(({ interface: nic = "" }) => /^net\d+$/.test(nic));
}

/** The names in a running pod, from its reported status. */
export function schemeOf(
  networks: readonly PlayedNetwork[],
  seen: readonly NetworkStatus[],
): NameScheme {
  return isOrdinal(seen) ? ordinalScheme(networks) : hashedScheme(networks);
}

const SEPARATOR = ", ";
const MULTUS = "multus-status";
const DOMAIN = "domain";

function sourcesOf({ infoSource = "" }: PlayedStatus): readonly string[] {
  return infoSource === "" ? [] : infoSource.split(SEPARATOR);
}

export function isInDomain(status: PlayedStatus): boolean {
  return sourcesOf(status).includes(DOMAIN);
}

export function isInPod(status: PlayedStatus): boolean {
  return sourcesOf(status).includes(MULTUS);
}

function withSource(status: PlayedStatus, source: string, isSo: boolean): PlayedStatus {
  const before = sourcesOf(status);
  if (before.includes(source) === isSo) return status;
  const after = isSo ? [...before, source] : before.filter((other) => other !== source);
  return { ...status, infoSource: after.join(SEPARATOR) };
}

/** As virt-handler reports it after the domain got or lost the device. */
export function withDomain(status: PlayedStatus, isThere: boolean): PlayedStatus {
  return withSource(status, DOMAIN, isThere);
}

/** virt-controller's report of NICs from `network-status`. Source: v1.9 pkg/network/controllers/vmi.go. */
export function reportedStatus(
  { networks, status }: Pick<PlayedVmi, "networks" | "status">,
  seen: readonly NetworkStatus[],
): readonly PlayedStatus[] {
  const scheme = schemeOf(networks, seen);
  const others = seen.filter((entry) => entry.default !== true).map((entry) => entry.interface);
  const primaryNic = seen.find((entry) => entry.default === true)?.interface ?? PRIMARY;
  const find = (name: string): PlayedStatus | undefined =>
    status.find((entry) => entry.name === name);
  const primary = networks.filter(isPrimary).map(({ name }) => ({
    name,
    ...find(name),
    podInterfaceName: primaryNic,
  }));
  const secondary = networks.filter(isSecondary).flatMap(({ name }): PlayedStatus[] => {
    const podInterfaceName = scheme.get(name) ?? "";
    const isThere = others.includes(podInterfaceName);
    const before = find(name);
    if (before === undefined && !isThere) return [];
    return [withSource({ name, ...before, podInterfaceName }, MULTUS, isThere)];
  });
  const known = new Set(networks.map(({ name }) => name));
  return [...primary, ...secondary, ...status.filter(({ name }) => !known.has(name))];
}

function statusOf({ status }: Pick<PlayedVmi, "status">, name: string): PlayedStatus | undefined {
  return status.find((entry) => entry.name === name);
}

/** Ifaces that virt-handler plugs into a running VM. Source: v1.9 pkg/network/setup/filters.go. */
export function toPlug(vmi: Pick<PlayedVmi, "interfaces" | "status">): readonly string[] {
  return vmi.interfaces
    .filter((iface) => !isAbsent(iface))
    .map(({ name }) => name)
    .filter((name) => {
      const status = statusOf(vmi, name);
      return status !== undefined && isInPod(status) && !isInDomain(status);
    });
}

/** Absent ifaces whose links virt-handler removes because the domain no longer has them. */
export function toUnplug(vmi: Pick<PlayedVmi, "interfaces" | "status">): readonly string[] {
  return vmi.interfaces
    .filter(isAbsent)
    .map(({ name }) => name)
    .filter((name) => {
      const status = statusOf(vmi, name);
      return status !== undefined && !isInDomain(status);
    });
}

/** Without absent ifaces that are fully removed. Source: v1.9 pkg/network/controllers/vm.go. */
export function cleared(vmi: PlayedVmi): PlayedVmi {
  const interfaces = vmi.interfaces.filter(
    (iface) => !isAbsent(iface) || statusOf(vmi, iface.name) !== undefined,
  );
  const remaining = new Set(interfaces.map(({ name }) => name));
  return { ...vmi, interfaces, networks: vmi.networks.filter(({ name }) => remaining.has(name)) };
}
