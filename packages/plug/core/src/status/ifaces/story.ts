// SPDX-License-Identifier: Apache-2.0
// How long did a plug, a swap or an unplug take, and where did the time go? What a person reads in the event of its end.
import type { HotplugType, IfacePhase } from "@patchbay/api";
import type { IfaceFacts } from "../../iface/facts.ts";
import { kindOfPhase, phaseOf } from "../../iface/phase.ts";

/** One iface on its way, or at its end: times are of a monotonic clock, milliseconds. */
export interface IfaceStory {
  readonly type: HotplugType;
  /** Seen from its beginning, in a guest that ran already: its length means something. */
  readonly isWhole: boolean;
  readonly begunMs: number;
  readonly phase: IfacePhase;
  readonly phaseMs: number;
  /** The phases that are over, in their order. */
  readonly spent: readonly { readonly phase: IfacePhase; readonly ms: number }[];
}

/** Where an iface is in its life. */
export interface IfaceStage {
  readonly name: string;
  readonly type: HotplugType;
  readonly phase: IfacePhase;
}

/** Of each iface that there is anything of. */
export function stagesOf(ifaces: readonly IfaceFacts[]): readonly IfaceStage[] {
  return ifaces.flatMap((facts) => {
    const phase = phaseOf(facts);
    return phase === undefined ? [] : [{ name: facts.name, type: kindOfPhase(phase), phase }];
  });
}

/** How an iface is seen, and when. */
interface SeenStage extends Omit<IfaceStage, "name"> {
  readonly nowMs: number;
  /** Nothing was told of it before, or it had come to its end, while the guest ran. */
  readonly isNew: boolean;
}

/** The story with what is seen now; a phase that is seen again adds nothing. */
export function storyAfter(
  before: IfaceStory | undefined,
  { type, phase, nowMs, isNew }: SeenStage,
): IfaceStory {
  // A NIC that is in order and wanted begins nothing by being looked at.
  const isOver = before?.phase === "Ready" && phase !== "Ready";
  if (before === undefined || isOver || (before.type !== type && phase !== "Ready")) {
    return { type, isWhole: isNew, begunMs: nowMs, phase, phaseMs: nowMs, spent: [] };
  }
  if (before.phase === phase) return before;
  const ended = { phase: before.phase, ms: nowMs - before.phaseMs };
  return { ...before, phase, phaseMs: nowMs, spent: [...before.spent, ended] };
}

/** What each phase waits for, in a word; links and device of a plug are made in one pass. */
const PLACES: Readonly<Partial<Record<IfacePhase, string>>> = {
  Pending: "pod",
  PodAttaching: "pod",
  Wiring: "device",
  Attaching: "device",
  PodSwapping: "pod",
  Switching: "links",
  Detaching: "guest",
  Unwiring: "links",
  PodDetaching: "pod",
};

const MS_PER_SECOND = 1000;

/** Times below a hundredth of a second are none to a person. */
function saySeconds(ms: number): string {
  const seconds = ms / MS_PER_SECOND;
  return `${seconds.toFixed(seconds < 10 ? 2 : 0)} s`;
}

/**
 * Its length and the parts of it, for example `after 0.84 s (pod 0.51 s, device 0.33 s)`; undefined where it was
 * not seen from its beginning.
 */
export function sayStory(story: IfaceStory | undefined, nowMs: number): string | undefined {
  if (story?.isWhole !== true) return undefined;
  const isAtEnd = story.phase === "Ready";
  const last = isAtEnd ? [] : [{ phase: story.phase, ms: nowMs - story.phaseMs }];
  const endMs = isAtEnd ? story.phaseMs : nowMs;
  const spent = new Map<string, number>();
  for (const { phase, ms } of [...story.spent, ...last]) {
    const place = PLACES[phase] ?? phase;
    spent.set(place, (spent.get(place) ?? 0) + ms);
  }
  const parts = [...spent].map(([place, ms]) => `${place} ${saySeconds(ms)}`);
  const where = parts.length > 1 ? ` (${parts.join(", ")})` : "";
  return `after ${saySeconds(endMs - story.begunMs)}${where}`;
}
