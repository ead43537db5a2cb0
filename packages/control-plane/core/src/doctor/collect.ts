// SPDX-License-Identifier: Apache-2.0
// Collects facts about an interface, and plans the doctor's probes.
import { findByName } from "../nics/nics.ts";
import type { VirtualMachineInstance } from "@patchbay/api";
import { parseIp } from "@patchbay/api/values";
import { isIpv6LinkLocal, listDefaultRouteFamilies } from "../nics/addresses/lease.ts";
import type { ObservedWiring } from "../nics/bindings/pod-wiring.ts";
import type { ServedNic } from "../nics/addresses/served-nic.ts";
import { readGuestLinks, type GuestNic } from "../guest/links.ts";
import type { GuestFacts } from "../interfaces/hypervisor.ts";
import type { IfaceFacts } from "../nics/facts.ts";
import { buildLease, findBindingModule, buildWiring } from "../nics/node-plan.ts";
import type { GuestReport, PathFacts } from "./facts.ts";
import type { FixValues } from "./report.ts";

export interface PathSources {
  readonly iface: IfaceFacts;
  readonly answer?: readonly GuestNic[];
  readonly routes?: GuestFacts;
  readonly served?: readonly ServedNic[];
  readonly vmis: readonly VirtualMachineInstance[];
  readonly vmi: VirtualMachineInstance;
  readonly isPaused: boolean;
  /** Time since the VMI entered the phase Running, in milliseconds. Unset if unknown. */
  readonly runningMs?: number;
  readonly netns?: string;
}

export interface ProbeRequest {
  readonly wiring: ObservedWiring;
  readonly addresses: readonly string[];
  readonly gateway?: { readonly address: string; readonly isRouted: boolean };
  readonly neighbor?: string;
  readonly testsDhcp: boolean;
}

const BOOLEAN_TEXTS: Readonly<Record<string, boolean | undefined>> = { true: true, false: false };

function readGuestReport(
  mac: string,
  { answer = [], routes = {} }: Pick<PathSources, "answer" | "routes">,
): GuestReport {
  const hasDefaultRoute = BOOLEAN_TEXTS[routes["routes.default.ipv4"] ?? ""];
  const links = readGuestLinks(answer);
  const nicLinks = links.find((link) => link.mac === mac);
  const addresses = [...(nicLinks?.ipv4 ?? []), ...(nicLinks?.ipv6 ?? [])];
  return {
    macs: links.flatMap((link) => link.mac ?? []),
    ...(nicLinks?.name === undefined ? {} : { name: nicLinks.name }),
    ...(hasDefaultRoute === undefined ? {} : { hasDefaultRoute }),
    ...(nicLinks !== undefined && {
      addresses: addresses.filter((address) => !isIpv6LinkLocal(address)),
    }),
  };
}

function findBlockedReason({ reported }: IfaceFacts): string | undefined {
  const { phase, reason, message } = reported?.hotplug ?? {};
  if (phase === undefined || phase === "Ready") return undefined;
  return message ?? reason ?? `its phase is ${phase}`;
}

function toDeviceFacts({ device }: IfaceFacts): PathFacts["device"] {
  if (device === undefined) return undefined;
  const { linkUp, mac, mtu } = device;
  return { linkUp, mac, ...(mtu === undefined ? {} : { mtu }) };
}

function collectDhcpFacts({
  iface,
  served = [],
}: PathSources): Pick<PathFacts, "serves" | "offersDefaultRoute"> {
  const nic = served.find((servedNic) => servedNic.iface === iface.name);
  return {
    ...(buildLease(iface) === undefined ? {} : { serves: nic !== undefined }),
    offersDefaultRoute: nic !== undefined && listDefaultRouteFamilies(nic.lease).includes(4),
  };
}

function listMacs({ status }: VirtualMachineInstance): readonly string[] {
  const entries = [...(status?.attachments ?? []), ...(status?.interfaces ?? [])];
  return [...new Set(entries.flatMap(({ mac }) => mac?.toLowerCase() ?? []))];
}

/** Milliseconds for which a started guest counts as booting: BOOT_MS while its agent does not reply, CONFIGURATION_MS once it replies. */
const [BOOT_MS, CONFIGURATION_MS] = [300_000, 60_000];

function isBooting({ answer, runningMs }: PathSources): boolean {
  return runningMs !== undefined && runningMs < (answer === undefined ? BOOT_MS : CONFIGURATION_MS);
}

function nameForFixes({ vmi, iface }: PathSources): FixValues {
  const [address = ""] = (iface.remembered?.addresses ?? []).filter(
    (text) => parseIp(text)?.version === 4,
  );
  const length = address.split("/")[1];
  return {
    VM: vmi.metadata.name,
    NAMESPACE: vmi.metadata.namespace ?? "",
    INTERFACE: iface.name,
    ...(length === undefined ? {} : { LENGTH: length }),
  };
}

function collectVmFacts(
  sources: PathSources,
): Pick<PathFacts, "vmMacs" | "isPaused" | "isBooting" | "isWindows" | "names" | "netns"> {
  const { vmi, isPaused, netns } = sources;
  const isWindows = vmi.status?.guestOSInfo?.id === "mswindows";
  return {
    vmMacs: listMacs(vmi),
    names: nameForFixes(sources),
    ...(netns === undefined ? {} : { netns }),
    ...(isPaused ? { isPaused: true } : {}),
    ...(isBooting(sources) ? { isBooting: true } : {}),
    ...(isWindows ? { isWindows: true } : {}),
  };
}

function collectPodAddresses(iface: IfaceFacts): Pick<PathFacts, "podAddresses"> {
  const { ips = [] } = iface.attachment ?? {};
  if (findBindingModule(iface).kind !== "masquerade") return {};
  return { podAddresses: ips.filter((ip) => parseIp(ip)?.version === 4) };
}

export function collectPathFacts(sources: PathSources): Omit<PathFacts, "observed"> {
  const { iface, answer } = sources;
  const blockedReason = findBlockedReason(iface);
  const device = toDeviceFacts(iface);
  const claims = buildWiring(iface)?.guard?.addresses;
  const hasAgentReply = answer !== undefined && device !== undefined;
  return {
    binding: findBindingModule(iface).kind,
    ...collectVmFacts(sources),
    ...(blockedReason === undefined ? {} : { blockedReason }),
    ...(device === undefined ? {} : { device }),
    ...(hasAgentReply && { guest: readGuestReport(device.mac, sources) }),
    ...(claims === undefined ? {} : { allowedAddresses: claims }),
    ...collectPodAddresses(iface),
    ...collectDhcpFacts(sources),
  };
}

function stripPrefixLength(text: string): string {
  return text.split("/")[0] ?? text;
}

/**
 * Returns the addresses that the guest agent reports. If the agent reports none, returns the addresses that the pod leases to the guest by
 * DHCP. IPv4 addresses come first.
 */
function findAddresses({ iface }: PathSources, guest: GuestReport | undefined): readonly string[] {
  const { ipv4, ipv6 } = buildLease(iface) ?? {};
  const leasedAddresses = [ipv4, ...(ipv6?.addresses ?? [])].flatMap(
    (lease) => lease?.address ?? [],
  );
  const reportedAddresses = guest?.addresses ?? [];
  const candidates = (reportedAddresses.length > 0 ? reportedAddresses : leasedAddresses).map(
    stripPrefixLength,
  );
  const filterByVersion = (version: 4 | 6): readonly string[] =>
    candidates.filter((address) => parseIp(address)?.version === version);
  return [...filterByVersion(4), ...filterByVersion(6)];
}

/** Returns the gateway to probe. Prefers gateways that a route uses. If several remain, prefers IPv4 gateways. */
function findGateway({ attachment, remembered }: IfaceFacts): ProbeRequest["gateway"] {
  const routes = remembered?.routes ?? [];
  const defaultGateways = routes
    .filter(({ destination }) => destination.endsWith("/0"))
    .flatMap(({ gateway }) => gateway ?? []);
  const routers = routes.flatMap(({ gateway }) => gateway ?? []);
  const candidates = [...(attachment?.gateways ?? []), ...defaultGateways].map((address) => ({
    address,
    isRouted: routers.includes(address),
    isIpv4: parseIp(address)?.version === 4,
  }));
  const best =
    candidates.find(({ isRouted, isIpv4 }) => isRouted && isIpv4) ??
    candidates.find(({ isRouted }) => isRouted) ??
    candidates.find(({ isIpv4 }) => isIpv4) ??
    candidates[0];
  return best && { address: best.address, isRouted: best.isRouted };
}

/** Returns an IPv4 address that the agent of another guest reported. That guest is on this node and on the same network. */
function findNeighbor({ iface, vmis, vmi }: PathSources): string | undefined {
  const network = iface.attachment?.networkName;
  if (network === undefined) return undefined;
  const vmiMacs = listMacs(vmi);
  const addresses = vmis.flatMap(({ status }) =>
    (status?.attachments ?? [])
      .filter(
        (entry) =>
          entry.networkName === network && !vmiMacs.includes(entry.mac?.toLowerCase() ?? ""),
      )
      .map((entry) => findByName(status?.interfaces, entry.name))
      .filter((entry) => entry?.infoSource?.includes("guest-agent") === true)
      .flatMap((entry) => entry?.ipAddresses ?? []),
  );
  return addresses.map(stripPrefixLength).find((address) => parseIp(address)?.version === 4);
}

export function planProbes(
  sources: PathSources,
  { guest, serves, binding }: Omit<PathFacts, "observed">,
): ProbeRequest | undefined {
  const { iface } = sources;
  const wiring = buildWiring(iface);
  if (wiring === undefined) return undefined;
  const gateway = findGateway(iface);
  const neighbor = binding === "masquerade" ? undefined : findNeighbor(sources);
  const addresses = findAddresses(sources, guest);
  const mayUseNetworkDhcp = binding === "bridge" || binding === "managedTap";
  return {
    wiring,
    addresses,
    ...(gateway === undefined ? {} : { gateway }),
    ...(neighbor === undefined ? {} : { neighbor }),
    testsDhcp: mayUseNetworkDhcp && serves === undefined && addresses.length === 0,
  };
}
