// SPDX-License-Identifier: Apache-2.0
// What is known of an iface before its way is looked at, and whom its network is asked for.
import { findByName } from "../spec/nics.ts";
import { parseIp, type VirtualMachineInstance } from "@patchbay/api";
import { isIpv6LinkLocal, waysOutOf } from "../addresses/lease.ts";
import type { SeenWiring } from "../bindings/pod-wiring.ts";
import type { ServedNic } from "../addresses/served-nic.ts";
import { readGuestLinks, type GuestNic } from "../guest/links.ts";
import type { GuestFacts } from "../ports/hypervisor.ts";
import type { IfaceFacts } from "../iface/facts.ts";
import { leaseOf, moduleOf, wiringOf } from "../iface/links/wiring.ts";
import type { GuestWord, WayFacts } from "./facts.ts";

/** Where the facts come from. */
export interface WaySources {
  readonly iface: IfaceFacts;
  /** What the guest's agent answered just now; absent: none answers. */
  readonly answer?: readonly GuestNic[];
  /** What it told of its routes; absent: nothing. */
  readonly routes?: GuestFacts;
  /** What the pod's DHCP servers serve, one for each NIC. */
  readonly served?: readonly ServedNic[];
  /** The guests of this node. */
  readonly vmis: readonly VirtualMachineInstance[];
  /** The guest's own. */
  readonly vmi: VirtualMachineInstance;
  /** As libvirt reports it. */
  readonly isPaused: boolean;
}

/** What is asked along the way. */
export interface WayQuestion {
  readonly wiring: SeenWiring;
  readonly addresses: readonly string[];
  readonly target?: { readonly address: string; readonly isGuest: boolean };
  readonly asksDhcp: boolean;
}

const HAS_DEFAULT: Readonly<Record<string, boolean | undefined>> = { true: true, false: false };

function guestWord(
  mac: string,
  { answer = [], routes = {} }: Pick<WaySources, "answer" | "routes">,
): GuestWord {
  const hasDefaultRoute = HAS_DEFAULT[routes["routes.default.ipv4"] ?? ""];
  const links = readGuestLinks(answer);
  const own = links.find((link) => link.mac === mac);
  const addresses = [...(own?.ipv4 ?? []), ...(own?.ipv6 ?? [])];
  return {
    macs: links.flatMap((link) => link.mac ?? []),
    ...(hasDefaultRoute === undefined ? {} : { hasDefaultRoute }),
    ...(own !== undefined && {
      addresses: addresses.filter((address) => !isIpv6LinkLocal(address)),
    }),
  };
}

function hindranceOf({ reported }: IfaceFacts): string | undefined {
  const { phase, reason, message } = reported?.hotplug ?? {};
  if (phase === undefined || phase === "Ready") return undefined;
  return message ?? reason ?? `its phase is ${phase}`;
}

function deviceOf({ device }: IfaceFacts): WayFacts["device"] {
  if (device === undefined) return undefined;
  const { linkUp, mac, mtu } = device;
  return { linkUp, mac, ...(mtu === undefined ? {} : { mtu }) };
}

/** What the pod gives the guest by DHCP. */
function servingOf({ iface, served = [] }: WaySources): Pick<WayFacts, "serves" | "leadsOut"> {
  const nic = served.find((each) => each.iface === iface.name);
  return {
    ...(leaseOf(iface) === undefined ? {} : { serves: nic !== undefined }),
    leadsOut: nic !== undefined && waysOutOf(nic.lease).includes(4),
  };
}

function macsOf({ status }: VirtualMachineInstance): readonly string[] {
  const all = [...(status?.attachments ?? []), ...(status?.interfaces ?? [])];
  return [...new Set(all.flatMap(({ mac }) => mac?.toLowerCase() ?? []))];
}

/** What is known of the VM, whichever interface it is about. */
function vmFacts({
  vmi,
  isPaused,
}: WaySources): Pick<WayFacts, "ownMacs" | "isPaused" | "isWindows"> {
  const isWindows = vmi.status?.guestOSInfo?.id === "mswindows";
  return {
    ownMacs: macsOf(vmi),
    ...(isPaused ? { isPaused: true } : {}),
    ...(isWindows ? { isWindows: true } : {}),
  };
}

/** What is known of the way, but for what is seen of it. */
export function wayFactsOf(sources: WaySources): Omit<WayFacts, "seen"> {
  const { iface, answer } = sources;
  const hindrance = hindranceOf(iface);
  const device = deviceOf(iface);
  const claims = wiringOf(iface)?.guard?.addresses;
  const isHeard = answer !== undefined && device !== undefined;
  return {
    binding: moduleOf(iface).kind,
    ...vmFacts(sources),
    ...(hindrance === undefined ? {} : { hindrance }),
    ...(device === undefined ? {} : { device }),
    ...(isHeard && { guest: guestWord(device.mac, sources) }),
    ...(claims === undefined ? {} : { mayClaim: claims }),
    ...servingOf(sources),
  };
}

function alone(text: string): string {
  return text.split("/")[0] ?? text;
}

/** Those that its agent tells of, or those that it was given; IPv4 before IPv6. */
function addressesOf({ iface }: WaySources, guest: GuestWord | undefined): readonly string[] {
  const { ipv4, ipv6 } = leaseOf(iface) ?? {};
  const given = [ipv4, ...(ipv6?.addresses ?? [])].flatMap((each) => each?.address ?? []);
  const known = guest?.addresses ?? [];
  const all = (known.length > 0 ? known : given).map(alone);
  const ofVersion = (version: 4 | 6): readonly string[] =>
    all.filter((address) => parseIp(address)?.version === version);
  return [...ofVersion(4), ...ofVersion(6)];
}

function gatewayOf({ remembered }: IfaceFacts): string | undefined {
  const routes = remembered?.routes ?? [];
  return routes.find(
    ({ destination, gateway }) => destination === "0.0.0.0/0" && gateway !== undefined,
  )?.gateway;
}

/** An address that another guest of this node reports on the same network. One that was only assigned may be unused. */
function neighbourOf({ iface, vmis, vmi }: WaySources): string | undefined {
  const network = iface.attachment?.networkName;
  if (network === undefined) return undefined;
  const own = macsOf(vmi);
  const addresses = vmis.flatMap(({ status }) =>
    (status?.attachments ?? [])
      .filter(
        (each) => each.networkName === network && !own.includes(each.mac?.toLowerCase() ?? ""),
      )
      .map((each) => findByName(status?.interfaces, each.name))
      .filter((each) => each?.infoSource?.includes("guest-agent") === true)
      .flatMap((each) => each?.ipAddresses ?? []),
  );
  return addresses.map(alone).find((address) => parseIp(address)?.version === 4);
}

/** What its way is asked; undefined: no link of the kernel carries it. */
export function wayQuestionOf(
  sources: WaySources,
  { guest, serves, binding }: Omit<WayFacts, "seen">,
): WayQuestion | undefined {
  const { iface } = sources;
  const wiring = wiringOf(iface);
  if (wiring === undefined) return undefined;
  const gateway = gatewayOf(iface);
  const neighbour = binding === "masquerade" ? undefined : neighbourOf(sources);
  const address = gateway ?? neighbour;
  const addresses = addressesOf(sources, guest);
  const isOpen = binding === "bridge" || binding === "managedTap";
  return {
    wiring,
    addresses,
    ...(address === undefined ? {} : { target: { address, isGuest: gateway === undefined } }),
    asksDhcp: isOpen && serves === undefined && addresses.length === 0,
  };
}
