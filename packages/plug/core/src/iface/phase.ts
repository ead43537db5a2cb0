// SPDX-License-Identifier: Apache-2.0
// The only function that knows where an iface is in its life.
import {
  isAbsent,
  type Attachment,
  type HotplugType,
  type Iface,
  type IfacePhase,
} from "@patchbay/api";
import type { DeviceFacts, LinkFacts, SwapFacts } from "./facts.ts";

/** What the phase depends on. */
export interface PhaseFacts {
  readonly iface?: Iface;
  readonly attachment?: Attachment;
  readonly links: Pick<LinkFacts, "tap" | "bridge" | "wired" | "tapOpen">;
  readonly device?: DeviceFacts;
  readonly madeByHook?: true;
  readonly swap?: Pick<SwapFacts, "attachment"> & {
    readonly links: Pick<LinkFacts, "podInterface">;
  };
  readonly left?: readonly string[];
}

/** Whether the iface is to be in the VM. */
export function isWanted(facts: Pick<PhaseFacts, "iface">): boolean {
  return facts.iface !== undefined && !isAbsent(facts.iface);
}

function unplugPhase(facts: PhaseFacts): IfacePhase | undefined {
  if (facts.device !== undefined) return "Detaching";
  const { tap, bridge } = facts.links;
  if (tap || bridge || (facts.left ?? []).length > 0) return "Unwiring";
  return facts.attachment === undefined ? undefined : "PodDetaching";
}

/** The device works, and is to move; a NIC of the pod that does not work any more holds up no move. */
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
 * The phase of an iface; undefined when nothing is left of it. An attachment that is being removed is never used
 * again: its iface finishes the unplug first, also when it is wanted again.
 */
export function phaseOf(facts: PhaseFacts): IfacePhase | undefined {
  const removing = facts.attachment?.state === "Removing";
  return isWanted(facts) && !removing ? plugPhase(facts) : unplugPhase(facts);
}

/**
 * Whether the guest is to let go of the device: the iface is not wanted, or its tap was made anew under QEMU, which
 * does not open it again by itself.
 */
export function letsGo(facts: PhaseFacts): boolean {
  const phase = phaseOf(facts);
  return facts.device !== undefined && (phase === "Detaching" || phase === "Attaching");
}

const SWAP: readonly IfacePhase[] = ["PodSwapping", "Switching"];
const UNPLUG: readonly IfacePhase[] = ["Detaching", "Unwiring", "PodDetaching"];

/** Whether the phase belongs to plugging, to a change of the network, or to unplugging. */
export function kindOfPhase(phase: IfacePhase): HotplugType {
  if (UNPLUG.includes(phase)) return "Unplug";
  return SWAP.includes(phase) ? "Swap" : "Plug";
}
