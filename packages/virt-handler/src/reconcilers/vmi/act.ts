// SPDX-License-Identifier: Apache-2.0
// Performs the steps of a node plan. A step that fails ends the iface's turn, not the others'.
import {
  findByName,
  hindranceOfFailure,
  hindranceOfWait,
  isDomainBusy,
  leastPauseMs,
  type AppError,
  type Hindrance,
  type NodeAction,
} from "@patchbay/core";
import type { Step } from "@patchbay/kube";
import { performOnIface, type FallibleAction, type IfaceAction } from "./iface-steps.ts";
import { startGuest, type DomainAction, type StartOutcome } from "./start-guest.ts";
import { codeOf, isLost, logAction, type Turn } from "./turn.ts";

/** What came of a plan. */
export interface Outcome {
  /** Whether anything was changed, so that it is worth looking again. */
  readonly changed: boolean;
  readonly hindrances: Readonly<Record<string, Hindrance>>;
  /** Why there is no guest. */
  readonly guest: Hindrance | undefined;
  /** When to look again if nothing wakes the loop before. */
  readonly againInMs: number | undefined;
  /** What ended the connection to libvirt. */
  readonly lost: AppError | undefined;
}

/** What came of a step that was not done. */
interface Obstacle {
  readonly hindrance: Hindrance;
  /** Absent: only an event helps. */
  readonly pauseMs: number | undefined;
  /** What was thrown; absent where nothing was tried. */
  readonly error?: unknown;
}

const STEP_KINDS: readonly FallibleAction["kind"][] = [
  "wireTap",
  "attachDevice",
  "detachDevice",
  "unwireTap",
  "setLink",
];

/** Names of all steps on an iface. */
export function stepsOf(iface: string): readonly string[] {
  return STEP_KINDS.map((kind) => `${kind} ${iface}`);
}

/** Other NICs may free what it needs. */
function stepOf(action: FallibleAction, { facts }: Turn): Step {
  const nics = facts.domain?.facts.nics.map(({ alias }) => alias) ?? [];
  return {
    scope: facts.vmi.metadata.uid ?? "",
    name: `${action.kind} ${action.iface}`,
    circumstances: JSON.stringify([action, nics]),
  };
}

/** Notes a failure and leaves the step alone for a time. */
function putOff(action: FallibleAction, error: unknown, turn: Turn): Obstacle {
  const { reported } = findByName(turn.facts.ifaces, action.iface) ?? {};
  const hindrance = hindranceOfFailure(action.kind, error, reported);
  const failure = { code: codeOf(error), shown: hindrance, atLeastMs: leastPauseMs(error) };
  const pauseMs = turn.deps.steps.fail(stepOf(action, turn), failure);
  return { hindrance, pauseMs, error };
}

/** Performs one step on an iface. */
async function tryOnIface(action: FallibleAction, turn: Turn): Promise<Obstacle | undefined> {
  const { deps } = turn;
  const startedMs = deps.clock.monotonicMs();
  try {
    await performOnIface(action, turn);
    logAction(action, turn, startedMs);
    deps.steps.succeed(stepOf(action, turn));
    return undefined;
  } catch (error) {
    const obstacle = putOff(action, error, turn);
    if (isLost(error)) return obstacle; // told of the pass as a whole
    const { kind, iface } = action;
    const { attempts: attempt } = obstacle.hindrance;
    deps.log.warn("step failed", { action: kind, iface, attempt, err: error });
    return obstacle;
  }
}

function waitOn(action: Extract<IfaceAction, { kind: "wait" }>, { facts, deps }: Turn): Obstacle {
  const asked = deps.unplugRequests.count(facts.vmi.metadata.uid ?? "", action.iface);
  return { hindrance: hindranceOfWait(action, asked, facts), pauseMs: action.forMs };
}

/** Whether the step is a call of libvirt. */
function isOnDevice({ kind }: FallibleAction): boolean {
  return kind === "attachDevice" || kind === "detachDevice" || kind === "setLink";
}

/** The part of a plan that is about ifaces. */
class IfaceTurns {
  readonly obstacles = new Map<string, Obstacle>();
  hasChanged = false;
  /** What ended the connection. */
  lost: AppError | undefined;
  /** Why no call on the domain would fare better: it is busy, and each would wait as long; or libvirt is lost. */
  #stop: unknown;
  readonly #turn: Turn;

  constructor(turn: Turn) {
    this.#turn = turn;
  }

  async take(action: IfaceAction): Promise<void> {
    if (this.obstacles.has(action.iface)) return;
    const obstacle = await this.#obstacleOf(action);
    if (obstacle === undefined) {
      this.hasChanged = true;
      return;
    }
    const { error } = obstacle;
    this.obstacles.set(action.iface, obstacle);
    if (isLost(error)) this.lost = error;
    if (isLost(error) || isDomainBusy(error)) this.#stop = error;
  }

  #obstacleOf(action: IfaceAction): Obstacle | undefined | Promise<Obstacle | undefined> {
    const turn = this.#turn;
    if (action.kind === "wait") return waitOn(action, turn);
    const held = turn.deps.steps.findHeld(stepOf(action, turn));
    if (held !== undefined) return { hindrance: held.shown, pauseMs: held.pauseMs };
    return this.#stop !== undefined && isOnDevice(action)
      ? putOff(action, this.#stop, turn)
      : tryOnIface(action, turn);
  }
}

function outcomeOf({ obstacles, hasChanged, lost }: IfaceTurns, start: StartOutcome): Outcome {
  const ofIfaces = [...obstacles.values()].flatMap(({ pauseMs }) => pauseMs ?? []);
  const pauses = [...ofIfaces, ...(start.pauseMs === undefined ? [] : [start.pauseMs])];
  const hindrances = [...obstacles].map(([iface, { hindrance }]) => [iface, hindrance] as const);
  return {
    changed: hasChanged || start.hasStarted,
    hindrances: Object.fromEntries(hindrances),
    guest: start.guest,
    againInMs: pauses.length === 0 ? undefined : Math.min(...pauses),
    lost: lost ?? start.lost,
  };
}

/** Performs the plan in order; steps that failed, or are left alone after they failed, are left out. */
export async function actNodeVm(plan: readonly NodeAction[], turn: Turn): Promise<Outcome> {
  const turns = new IfaceTurns(turn);
  const onDomain: DomainAction[] = [];
  for (const action of plan) {
    if ("iface" in action) await turns.take(action);
    else onDomain.push(action);
  }
  // Last, as in every plan: what is left of ifaces is taken away before.
  return outcomeOf(turns, await startGuest(onDomain, turn));
}
