// SPDX-License-Identifier: Apache-2.0
// The device of an iface, as libvirt is told of it.
import { names, vhostUserOf } from "@patchbay/api";
import { parsePciAddress, printNic, type NicDefinition, type DomainFacts } from "@patchbay/domain";
import type { IfaceFacts } from "../../iface/facts.ts";
import { socketLinkOf } from "../../iface/links/socket-link.ts";
import { moduleOf, onSwap } from "../../iface/links/wiring.ts";
import { macOf } from "../../iface/mac.ts";
import { namesOf } from "../../iface/names.ts";
import type { NicPlace } from "../../pcie/live-places.ts";
import { modelOf } from "../../pcie/topology.ts";
import type { BridgeWiring, PodWiring } from "../../bindings/pod-wiring.ts";
import type { SocketReason, VhostSocket } from "../../iface/links/vhost-socket.ts";
import { REQUESTS_MAX } from "../../reasons/words.ts";

/** What of a NIC its specification does not say. */
interface NicMaking extends NicPlace {
  /** Of use at a start only. */
  readonly hasBootRom?: true;
}

/** A tap of several queues cannot be opened for one, nor one of a single queue for several. Source: linux/drivers/net/tun.c */
function queuesFor({ takesQueues }: IfaceFacts["links"], wanted: number): number {
  if (takesQueues === undefined) return wanted;
  return takesQueues === "one" ? 1 : Math.max(wanted, 2);
}

/** The NIC of an iface that is wired and has its MAC. */
export function nicDefinitionOf(facts: IfaceFacts, place: NicMaking): NicDefinition {
  const { tapName, alias } = namesOf(facts.name, facts.podInterfaceName);
  const { links } = facts;
  const { bootOrder, acpiIndex } = facts.iface ?? {};
  return {
    alias,
    mac: macOf(facts),
    model: modelOf(facts.iface),
    ...(moduleOf(facts).kind === "vhostuser"
      ? { socketPath: `${names.LAUNCHER_DIR}/${socketLinkOf(facts.podInterfaceName)}` }
      : { tapName: links.tapName ?? tapName }),
    mtu: links.mtu,
    linkUp: facts.iface?.state !== "down",
    ...place,
    queues: queuesFor(links, place.queues),
    ...(bootOrder === undefined ? {} : { bootOrder }),
    ...(acpiIndex === undefined ? {} : { acpiIndex }),
  };
}

/** The device as the guest has it, but for its link; undefined while there is none, or libvirt has not placed it. */
export function liveNicOf(iface: IfaceFacts, linkUp: boolean): NicDefinition | undefined {
  const { device } = iface;
  const pciAddress = parsePciAddress(device?.pciAddress ?? "");
  if (device === undefined || pciAddress === undefined) return undefined;
  const { queues, mac, hasBootRom, mtu = iface.links.mtu } = device;
  const rom = hasBootRom === undefined ? {} : { hasBootRom };
  return { ...nicDefinitionOf(iface, { pciAddress, queues, ...rom }), mac, mtu, linkUp };
}

/**
 * One step for the guest, and all of it or nothing: the link goes down, the tap becomes a port of the other network's
 * bridge, which stands before, and the link comes up; a tap that cannot be moved goes back.
 */
export interface SwapAction {
  readonly kind: "swapNetwork";
  readonly iface: string;
  readonly from: BridgeWiring;
  readonly to: BridgeWiring;
  /** The device with its link down, and up again; absent: the link is to be down anyway. */
  readonly link?: { readonly down: string; readonly up: string };
}

/** Removes the bridge around a NIC of the pod that carries nothing any more. */
export interface RemoveBridgeAction {
  readonly kind: "removeBridge";
  readonly iface: string;
  readonly bridgeName: string;
}

/**
 * The network swap of a device. A link that was left down, by a swap that was cut short, comes up first: the swap may be
 * left alone for a while.
 */
export function planSwapNetwork(
  iface: IfaceFacts,
  wiringOf: (iface: IfaceFacts) => PodWiring | undefined,
): readonly SwapAction[] {
  const { swap } = iface;
  if (swap === undefined) return [];
  const [from, to] = [iface, onSwap({ ...iface, swap })].map(wiringOf);
  if (from?.kind !== "bridge" || to?.kind !== "bridge") return [];
  const [down, up] = [false, true].map((linkUp) => liveNicOf(iface, linkUp));
  const isUp = iface.iface?.state !== "down";
  const link =
    isUp && down !== undefined && up !== undefined
      ? { link: { down: printNic(down), up: printNic(up) } }
      : {};
  return [{ kind: "swapNetwork", iface: iface.name, from, to, ...link }];
}

/** What is left of networks that the iface was on. */
export function planLeft({ name, left = [] }: IfaceFacts): readonly RemoveBridgeAction[] {
  const [first] = left;
  if (first === undefined) return [];
  return [{ kind: "removeBridge", iface: name, bridgeName: namesOf(name, first).bridgeName }];
}

/** Lets the launcher use a socket, by the name that its domain has. */
export interface LinkSocketAction {
  readonly kind: "linkSocket";
  readonly iface: string;
  readonly socket: VhostSocket;
}

/** What such a NIC waits for. */
export type VhostUserWait =
  | SocketReason
  | "MemoryNotShared"
  | "InterruptVectors"
  | "BackendReplaced";

/** The guest as it is, or is to be started. */
interface GuestFacts {
  readonly domain:
    | {
        readonly running: boolean;
        readonly facts: Pick<DomainFacts, "sharesMemory" | "hasNoNicVectors">;
      }
    | undefined;
  readonly useEmulation: boolean;
}

/** What keeps a NIC from speaking vhost-user; undefined: nothing, or it is another kind of NIC. */
export function vhostUserWaitOf(
  iface: IfaceFacts,
  { domain, useEmulation }: GuestFacts,
): VhostUserWait | undefined {
  if (moduleOf(iface).kind !== "vhostuser") return undefined;
  const { socketProblem } = iface.links;
  if (socketProblem !== undefined) return socketProblem.reason;
  // A domain that is still to be defined is made for it.
  if (domain?.running !== true) return undefined;
  if (!domain.facts.sharesMemory) return "MemoryNotShared";
  return useEmulation && domain.facts.hasNoNicVectors !== true ? "InterruptVectors" : undefined;
}

/** The step that comes before the device. */
export function planLinkSocket({
  name,
  podInterfaceName,
  attachment,
}: IfaceFacts): LinkSocketAction {
  const path = vhostUserOf(attachment?.deviceInfo)?.path ?? "";
  return { kind: "linkSocket", iface: name, socket: { podInterfaceName, path } };
}

/** What a guest was asked to let go of, and has not. */
export interface UnplugRequest {
  /** How often it was asked. */
  readonly count: number;
  /** Milliseconds since the last time. */
  readonly agoMs: number;
  /** The last time has failed: libvirt said so. Source: libvirt VIR_DOMAIN_EVENT_ID_DEVICE_REMOVAL_FAILED. */
  readonly isRefused: boolean;
}

/** Asked again no sooner: a request made in firmware is silently lost. Source: measured on libvirt 9.0 and QEMU 7.2. */
const FIRST_MS = 10_000;
/** Nothing is given up: a guest that is reset, or whose driver comes, lets go at the next request. */
const MOST_MS = 60_000;

/** From one request to the next, milliseconds; `count` is how often the guest was asked by then. */
export function pauseAfterRequest(count: number): number {
  return Math.min(MOST_MS, FIRST_MS * 2 ** Math.max(0, count - REQUESTS_MAX));
}
