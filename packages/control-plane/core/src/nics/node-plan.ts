// SPDX-License-Identifier: Apache-2.0
// NIC devices of a domain: definitions, network swaps, vhost-user sockets, and unplug requests.
import { names, parseVhostUserInfo } from "@patchbay/api";
import { parsePciAddress, printNic, type NicDefinition, type DomainFacts } from "@patchbay/domain";
import type { IfaceFacts } from "./facts.ts";
import { buildSocketLinkName } from "./links/socket-link.ts";
import { findBindingModule, afterSwap } from "./links/wiring.ts";
import { findMac } from "./mac.ts";
import { namesOf } from "./names.ts";
import type { NicPlacement } from "./pcie/ports.ts";
import { findModelName } from "./pcie/topology.ts";
import type { BridgeWiring, PodWiring } from "./bindings/pod-wiring.ts";
import type { SocketReason, VhostSocket } from "./links/vhost-socket.ts";
import { UNPLUG_REQUESTS_MAX } from "../reasons/messages.ts";

interface NicOptions extends NicPlacement {
  readonly hasBootRom?: true;
}

/** A tap with several queues cannot be opened for a single one, and vice versa. Source: linux/drivers/net/tun.c */
function queuesFor({ tapQueues }: IfaceFacts["links"], wanted: number): number {
  if (tapQueues === undefined) return wanted;
  return tapQueues === "one" ? 1 : Math.max(wanted, 2);
}

export function buildNicDefinition(facts: IfaceFacts, options: NicOptions): NicDefinition {
  const { tapName, alias } = namesOf(facts.name, facts.podInterfaceName);
  const { links } = facts;
  const { bootOrder, acpiIndex } = facts.iface ?? {};
  return {
    alias,
    mac: findMac(facts),
    model: findModelName(facts.iface),
    ...(findBindingModule(facts).kind === "vhostuser"
      ? { socketPath: `${names.LAUNCHER_DIR}/${buildSocketLinkName(facts.podInterfaceName)}` }
      : { tapName: links.tapName ?? tapName }),
    mtu: links.mtu,
    linkUp: facts.iface?.state !== "down",
    ...options,
    queues: queuesFor(links, options.queues),
    ...(bootOrder === undefined ? {} : { bootOrder }),
    ...(acpiIndex === undefined ? {} : { acpiIndex }),
  };
}

/** The existing device with the given link state; undefined without a device or before libvirt has placed it. */
export function buildLiveNic(iface: IfaceFacts, linkUp: boolean): NicDefinition | undefined {
  const { device } = iface;
  const pciAddress = parsePciAddress(device?.pciAddress ?? "");
  if (device === undefined || pciAddress === undefined) return undefined;
  const { queues, mac, hasBootRom, mtu = iface.links.mtu } = device;
  const rom = hasBootRom === undefined ? {} : { hasBootRom };
  return { ...buildNicDefinition(iface, { pciAddress, queues, ...rom }), mac, mtu, linkUp };
}

/**
 * Swaps the network in one step: the link goes down, the tap moves to the other bridge, which exists already, and the
 * link comes up. If the tap cannot be moved, it goes back.
 */
export interface SwapAction {
  readonly kind: "swapNetwork";
  readonly iface: string;
  readonly from: BridgeWiring;
  readonly to: BridgeWiring;
  /** Device XML with the link down and up; unset if the link stays down. */
  readonly link?: { readonly down: string; readonly up: string };
}

/** Removes the bridge of a pod NIC that is no longer in use. */
export interface RemoveBridgeAction {
  readonly kind: "removeBridge";
  readonly iface: string;
  readonly bridgeName: string;
}

/** A link that an interrupted swap left down is brought up first, because the swap may be backing off. */
export function planSwapNetwork(
  iface: IfaceFacts,
  wiringOf: (iface: IfaceFacts) => PodWiring | undefined,
): readonly SwapAction[] {
  const { swap } = iface;
  if (swap === undefined) return [];
  const [from, to] = [iface, afterSwap({ ...iface, swap })].map(wiringOf);
  if (from?.kind !== "bridge" || to?.kind !== "bridge") return [];
  const [down, up] = [false, true].map((linkUp) => buildLiveNic(iface, linkUp));
  const isUp = iface.iface?.state !== "down";
  const link =
    isUp && down !== undefined && up !== undefined
      ? { link: { down: printNic(down), up: printNic(up) } }
      : {};
  return [{ kind: "swapNetwork", iface: iface.name, from, to, ...link }];
}

/** Removes one bridge of a network that the interface has left. */
export function planLeftoverBridge({
  name,
  leftovers = [],
}: IfaceFacts): readonly RemoveBridgeAction[] {
  const [first] = leftovers;
  if (first === undefined) return [];
  return [{ kind: "removeBridge", iface: name, bridgeName: namesOf(name, first).bridgeName }];
}

/** Shares a socket with the launcher, under the name that its domain uses. */
export interface LinkSocketAction {
  readonly kind: "linkSocket";
  readonly iface: string;
  readonly socket: VhostSocket;
}

export type VhostUserWait =
  | SocketReason
  | "MemoryNotShared"
  | "InterruptVectors"
  | "BackendReplaced";

interface GuestFacts {
  readonly domain:
    | {
        readonly running: boolean;
        readonly facts: Pick<DomainFacts, "sharesMemory" | "hasNoNicVectors">;
      }
    | undefined;
  readonly useEmulation: boolean;
}

/** Needed because libvirt accepts vhost-user devices that can never work. */
export function findVhostUserBlock(
  iface: IfaceFacts,
  { domain, useEmulation }: GuestFacts,
): VhostUserWait | undefined {
  if (findBindingModule(iface).kind !== "vhostuser") return undefined;
  const { socketProblem } = iface.links;
  if (socketProblem !== undefined) return socketProblem.reason;
  // A domain that is not defined yet will be made for vhost-user.
  if (domain?.running !== true) return undefined;
  if (!domain.facts.sharesMemory) return "MemoryNotShared";
  return useEmulation && domain.facts.hasNoNicVectors !== true ? "InterruptVectors" : undefined;
}

export function planLinkSocket({
  name,
  podInterfaceName,
  attachment,
}: IfaceFacts): LinkSocketAction {
  const path = parseVhostUserInfo(attachment?.deviceInfo)?.path ?? "";
  return { kind: "linkSocket", iface: name, socket: { podInterfaceName, path } };
}

/** A request to the guest to release a device, unanswered so far. */
export interface UnplugRequest {
  readonly count: number;
  readonly agoMs: number;
  /** Whether the last request failed. Source: libvirt VIR_DOMAIN_EVENT_ID_DEVICE_REMOVAL_FAILED. */
  readonly isRefused: boolean;
}

/** A request while the firmware runs is lost silently. Source: measured on libvirt 9.0 and QEMU 7.2. */
const FIRST_RETRY_MS = 10_000;
/** Requests never end, because a guest that is reset or loads its driver answers the next one. */
const MAX_RETRY_MS = 60_000;

/** Milliseconds until the next request. `count` is the number of requests so far. */
export function unplugRetryMs(count: number): number {
  return Math.min(MAX_RETRY_MS, FIRST_RETRY_MS * 2 ** Math.max(0, count - UNPLUG_REQUESTS_MAX));
}
