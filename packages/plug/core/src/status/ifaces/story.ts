// SPDX-License-Identifier: Apache-2.0
// How long did a plug, a swap or an unplug take, and where did the time go? What a person reads in the event of its end.
import type { HotplugType, IfaceOperation, IfacePhase } from "@patchbay/api";
import { dropAbsent } from "../../drop-absent.ts";
import type { IfaceFacts } from "../../iface/facts.ts";
import { isWanted, kindOfPhase, phaseOf } from "../../iface/phase.ts";
import { planLink } from "../../plan/node/node-vm.ts";
import { networkNameOf } from "../../spec/nics.ts";
import { saySeconds } from "./seconds.ts";

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
  /** When it began, RFC 3339. */
  readonly startTimestamp: string;
  /** It was on its way while the guest ran: no start of a guest. */
  readonly isLive: boolean;
  /** A NIC that was in order is made so again, which nobody asked for. */
  readonly isRepair: boolean;
  /** The network that it is to join or leave, NAMESPACE/NAME; absent: the pod's. */
  readonly networkName?: string;
  /** The NIC of the pod that it hung on at the beginning. */
  readonly podInterfaceName: string;
  /** What held it up last. */
  readonly heldUpBy?: {
    readonly reason: string;
    readonly message?: string;
    readonly attempts?: number;
  };
}

/** Where an iface is in its life. */
export interface IfaceStage {
  readonly name: string;
  readonly type: HotplugType;
  readonly phase: IfacePhase;
  /** The network that it is to be on, or was on where it is to go, NAMESPACE/NAME; absent: the pod's. */
  readonly networkName?: string;
  /** The NIC of the pod that it hangs on. */
  readonly podInterfaceName: string;
  /** Of a NIC that is in order. */
  readonly link?: LinkStage;
}

/** The link of a NIC: how it is, and what it is about to become; absent: it stays so. */
export interface LinkStage {
  readonly is: LinkState;
  readonly wanted?: LinkState;
}

type LinkState = NonNullable<IfaceOperation["linkState"]>;

function printLink(isUp: boolean): LinkState {
  return isUp ? "up" : "down";
}

function linkStageOf(facts: IfaceFacts): LinkStage | undefined {
  const { device, iface } = facts;
  if (device === undefined) return undefined;
  const wanted = planLink(facts).length > 0 ? printLink(iface?.state !== "down") : undefined;
  return dropAbsent({ is: printLink(device.linkUp), wanted });
}

function stageOf(facts: IfaceFacts, namespace: string): IfaceStage | undefined {
  const phase = phaseOf(facts);
  if (phase === undefined) return undefined;
  const { name, network, attachment, podInterfaceName } = facts;
  const wanted = network === undefined ? undefined : networkNameOf(network, namespace);
  return dropAbsent({
    name,
    type: kindOfPhase(phase),
    phase,
    networkName: isWanted(facts) ? wanted : (attachment?.networkName ?? wanted),
    podInterfaceName,
    link: phase === "Ready" ? linkStageOf(facts) : undefined,
  });
}

/** Of each iface of a VMI in that namespace that there is anything of. */
export function stagesOf(ifaces: readonly IfaceFacts[], namespace: string): readonly IfaceStage[] {
  return ifaces.flatMap((facts) => stageOf(facts, namespace) ?? []);
}

/** When a pass looks. */
export interface Moment {
  /** Of a monotonic clock. */
  readonly nowMs: number;
  /** RFC 3339. */
  readonly now: string;
}

/** How an iface is seen, and when. */
export interface SeenStage extends Omit<IfaceStage, "name" | "link">, Moment {
  /** Nothing was told of it before, or it had come to its end, while the guest ran. */
  readonly isNew: boolean;
  readonly isRunning: boolean;
  /** It was told to be in order. */
  readonly wasReady: boolean;
}

function begun(before: IfaceStory | undefined, seen: SeenStage): IfaceStory {
  const { type, phase, nowMs, now, isNew, isRunning, networkName, podInterfaceName } = seen;
  const wasReady = before === undefined ? seen.wasReady : before.phase === "Ready";
  return dropAbsent({
    type,
    isWhole: isNew,
    begunMs: nowMs,
    phase,
    phaseMs: nowMs,
    spent: [],
    startTimestamp: now,
    isLive: isRunning,
    isRepair: type === "Plug" && wasReady,
    networkName,
    podInterfaceName,
  });
}

function inPhase(before: IfaceStory, { phase, nowMs }: SeenStage): IfaceStory {
  if (before.phase === phase) return before;
  const ended = { phase: before.phase, ms: nowMs - before.phaseMs };
  return { ...before, phase, phaseMs: nowMs, spent: withSpent(before.spent, ended) };
}

/** A NIC that is in order and wanted begins nothing by being looked at. */
function begins(before: IfaceStory, { type, phase }: SeenStage): boolean {
  return phase !== "Ready" && (before.phase === "Ready" || before.type !== type);
}

/** The story with what is seen now; a phase that is seen again adds nothing. */
export function storyAfter(before: IfaceStory | undefined, seen: SeenStage): IfaceStory {
  if (before === undefined || begins(before, seen)) return begun(before, seen);
  const next = inPhase(before, seen);
  if (seen.phase === "Ready") return next;
  const isLive = before.isLive || seen.isRunning;
  return dropAbsent({ ...next, isLive, networkName: seen.networkName });
}

/** One entry for each phase, so that what goes back and forth does not grow. */
function withSpent(
  spent: IfaceStory["spent"],
  ended: IfaceStory["spent"][number],
): IfaceStory["spent"] {
  if (!spent.some(({ phase }) => phase === ended.phase)) return [...spent, ended];
  return spent.map((each) =>
    each.phase === ended.phase ? { ...each, ms: each.ms + ended.ms } : each,
  );
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
