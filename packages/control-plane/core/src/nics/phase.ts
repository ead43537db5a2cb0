// SPDX-License-Identifier: Apache-2.0
// The phase of an interface. No other code decides it.
import {
  isAbsent,
  type Attachment,
  type HotplugType,
  type Iface,
  type IfacePhase,
} from "@patchbay/api";
import type { DeviceFacts, LinkFacts, SwapFacts } from "./facts.ts";

export interface PhaseFacts {
  readonly iface?: Iface;
  readonly attachment?: Attachment;
  readonly links: Pick<LinkFacts, "tap" | "bridge" | "wired" | "tapOpen">;
  readonly device?: DeviceFacts;
  readonly madeByHook?: true;
  readonly swap?: Pick<SwapFacts, "attachment"> & {
    readonly links: Pick<LinkFacts, "podInterface">;
  };
  readonly leftovers?: readonly string[];
}

export function isWanted(facts: Pick<PhaseFacts, "iface">): boolean {
  return facts.iface !== undefined && !isAbsent(facts.iface);
}

function unplugPhase(facts: PhaseFacts): IfacePhase | undefined {
  if (facts.device !== undefined) return "Detaching";
  const { tap, bridge } = facts.links;
  if (tap || bridge || (facts.leftovers ?? []).length > 0) return "Unwiring";
  return facts.attachment === undefined ? undefined : "PodDetaching";
}

/** Phase of a network swap of a working device. A broken pod NIC does not block the swap. */
function swapPhase({ swap, links, device }: PhaseFacts): IfacePhase | undefined {
  if (swap === undefined || device === undefined || !links.tapOpen) return undefined;
  if (swap.attachment?.state === "Attached" && swap.links.podInterface) return "Switching";
  return links.wired ? "PodSwapping" : undefined;
}

function plugPhase(facts: PhaseFacts): IfacePhase {
  const { wired, tapOpen } = facts.links;
  const swap = swapPhase(facts);
  if (swap !== undefined) return swap;
  if (facts.device !== undefined && wired && tapOpen) return "Ready";
  if (facts.attachment === undefined) return "Pending";
  if (facts.madeByHook === true && wired) return "Ready";
  if (facts.attachment.state !== "Attached") return "PodAttaching";
  return wired ? "Attaching" : "Wiring";
}

/**
 * The phase of an interface, or undefined if nothing of it exists. An attachment that is being removed is not reused: the
 * interface completes the unplug first, even if it is requested again.
 */
export function decidePhase(facts: PhaseFacts): IfacePhase | undefined {
  const removing = facts.attachment?.state === "Removing";
  return isWanted(facts) && !removing ? plugPhase(facts) : unplugPhase(facts);
}

/**
 * Whether the guest must release the device: the interface is not wanted, or its tap was recreated, which QEMU does not
 * open again by itself.
 */
export function mustReleaseDevice(facts: PhaseFacts): boolean {
  const phase = decidePhase(facts);
  return facts.device !== undefined && (phase === "Detaching" || phase === "Attaching");
}

const SWAP_PHASES: readonly IfacePhase[] = ["PodSwapping", "Switching"];
const UNPLUG_PHASES: readonly IfacePhase[] = ["Detaching", "Unwiring", "PodDetaching"];

export function toHotplugType(phase: IfacePhase): HotplugType {
  if (UNPLUG_PHASES.includes(phase)) return "Unplug";
  return SWAP_PHASES.includes(phase) ? "Swap" : "Plug";
}
