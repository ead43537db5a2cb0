// SPDX-License-Identifier: Apache-2.0
// How the network of an iface is swapped under its device, and how what is left of the old one goes.
import { printNic } from "@patchbay/domain";
import type { BridgeWiring, PodWiring } from "../../bindings/pod-wiring.ts";
import type { IfaceFacts } from "../../iface/facts.ts";
import { namesOf } from "../../iface/names.ts";
import { onSwap } from "../../iface/links/wiring.ts";
import { liveNicOf } from "./nic.ts";

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
