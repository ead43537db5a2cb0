// SPDX-License-Identifier: Apache-2.0
// Durations of plugs, network swaps and unplugs by phase, for events.
import type { HotplugType, IfaceOperation, IfacePhase } from "@patchbay/api";
import { omitUndefined } from "@patchbay/base";
import type { IfaceFacts } from "../facts.ts";
import { isWanted, toHotplugType, decidePhase } from "../phase.ts";
import { planLink } from "../../vm/node/node-vm.ts";
import { networkNameOf } from "../nics.ts";
import { printSeconds } from "../../history/messages.ts";

/** Timings of an interface's current operation. The operation began at `startedMs`, its phase at `phaseMs` (monotonic, in milliseconds). */
export interface PhaseTimings {
  readonly type: HotplugType;
  /** Whether the operation's start was observed in a running guest. Otherwise its duration is not reported. */
  readonly isStartObserved: boolean;
  readonly startedMs: number;
  readonly phase: IfacePhase;
  readonly phaseMs: number;
  readonly spent: readonly { readonly phase: IfacePhase; readonly ms: number }[];
  readonly startTimestamp: string;
  /** Whether the guest ran during the operation. Otherwise the operation is part of the guest's start. */
  readonly isLive: boolean;
  /** Whether the operation repairs a NIC that was ready. */
  readonly isRepair: boolean;
  /** NAMESPACE/NAME of the network that the NIC joins or leaves. Unset for the pod network. */
  readonly networkName?: string;
  readonly podInterfaceName: string;
  readonly blockedBy?: {
    readonly reason: string;
    readonly message?: string;
    readonly attempts?: number;
  };
}

export interface IfaceStage {
  readonly name: string;
  readonly type: HotplugType;
  readonly phase: IfacePhase;
  /** NAMESPACE/NAME of the network in the spec, or of the current network during an unplug. Unset for the pod network. */
  readonly networkName?: string;
  readonly podInterfaceName: string;
  readonly link?: LinkStage;
}

export interface LinkStage {
  readonly state: LinkState;
  readonly wanted?: LinkState;
}

type LinkState = NonNullable<IfaceOperation["linkState"]>;

function printLink(isUp: boolean): LinkState {
  return isUp ? "up" : "down";
}

function buildLinkStage(facts: IfaceFacts): LinkStage | undefined {
  const { device, iface } = facts;
  if (device === undefined) return undefined;
  const wanted = planLink(facts).length > 0 ? printLink(iface?.state !== "down") : undefined;
  return omitUndefined({ state: printLink(device.linkUp), wanted });
}

function buildStage(facts: IfaceFacts, namespace: string): IfaceStage | undefined {
  const phase = decidePhase(facts);
  if (phase === undefined) return undefined;
  const { name, network, attachment, podInterfaceName } = facts;
  const wanted = network === undefined ? undefined : networkNameOf(network, namespace);
  return omitUndefined({
    name,
    type: toHotplugType(phase),
    phase,
    networkName: isWanted(facts) ? wanted : (attachment?.networkName ?? wanted),
    podInterfaceName,
    link: phase === "Ready" ? buildLinkStage(facts) : undefined,
  });
}

export function listStages(
  ifaces: readonly IfaceFacts[],
  namespace: string,
): readonly IfaceStage[] {
  return ifaces.flatMap((facts) => buildStage(facts, namespace) ?? []);
}

export interface ObservationTime {
  /** Monotonic time in milliseconds. */
  readonly nowMs: number;
  readonly now: string;
}

export interface ObservedStage extends Omit<IfaceStage, "name" | "link">, ObservationTime {
  /** Whether the start of the operation was observed while the guest ran. */
  readonly isNew: boolean;
  readonly isRunning: boolean;
  readonly wasReady: boolean;
}

function startTimings(previous: PhaseTimings | undefined, observed: ObservedStage): PhaseTimings {
  const { type, phase, nowMs, now, isNew, isRunning, networkName, podInterfaceName } = observed;
  const wasReady = previous === undefined ? observed.wasReady : previous.phase === "Ready";
  return omitUndefined({
    type,
    isStartObserved: isNew,
    startedMs: nowMs,
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

function enterPhase(previous: PhaseTimings, { phase, nowMs }: ObservedStage): PhaseTimings {
  if (previous.phase === phase) return previous;
  const ended = { phase: previous.phase, ms: nowMs - previous.phaseMs };
  return { ...previous, phase, phaseMs: nowMs, spent: addSpent(previous.spent, ended) };
}

/** Returns whether a new operation starts: a ready NIC is no longer ready, or the kind of operation has changed. */
function startsOperation(previous: PhaseTimings, { type, phase }: ObservedStage): boolean {
  return phase !== "Ready" && (previous.phase === "Ready" || previous.type !== type);
}

export function updateTimings(
  previous: PhaseTimings | undefined,
  observed: ObservedStage,
): PhaseTimings {
  if (previous === undefined || startsOperation(previous, observed))
    return startTimings(previous, observed);
  const next = enterPhase(previous, observed);
  if (observed.phase === "Ready") return next;
  const isLive = previous.isLive || observed.isRunning;
  return omitUndefined({ ...next, isLive, networkName: observed.networkName });
}

/** Adds the duration of a phase to the phase's entry, so that repeated phases do not grow the list. */
function addSpent(
  spent: PhaseTimings["spent"],
  ended: PhaseTimings["spent"][number],
): PhaseTimings["spent"] {
  if (!spent.some(({ phase }) => phase === ended.phase)) return [...spent, ended];
  return spent.map((each) =>
    each.phase === ended.phase ? { ...each, ms: each.ms + ended.ms } : each,
  );
}

/** Labels of phases in events. `Wiring` and `Attaching` share a label, because one reconcile pass creates links and device. */
const PHASE_LABELS: Readonly<Partial<Record<IfacePhase, string>>> = {
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

/** Describes an operation's durations, for example `after 0.84 s (pod 0.51 s, device 0.33 s)`. Undefined if the start was not observed. */
export function describeTimings(
  timings: PhaseTimings | undefined,
  nowMs: number,
): string | undefined {
  if (timings?.isStartObserved !== true) return undefined;
  const isAtEnd = timings.phase === "Ready";
  const current = isAtEnd ? [] : [{ phase: timings.phase, ms: nowMs - timings.phaseMs }];
  const endMs = isAtEnd ? timings.phaseMs : nowMs;
  const spent = new Map<string, number>();
  for (const { phase, ms } of [...timings.spent, ...current]) {
    const label = PHASE_LABELS[phase] ?? phase;
    spent.set(label, (spent.get(label) ?? 0) + ms);
  }
  const parts = [...spent].map(([label, ms]) => `${label} ${printSeconds(ms)}`);
  const details = parts.length > 1 ? ` (${parts.join(", ")})` : "";
  return `after ${printSeconds(endMs - timings.startedMs)}${details}`;
}
