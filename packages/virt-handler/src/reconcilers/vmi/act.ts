// SPDX-License-Identifier: Apache-2.0
// Performs the steps of a node plan. A step that fails ends the iface's turn, not the others'.
import { names } from "@patchbay/api";
import {
  aliasOf,
  domainNameOf,
  findByName,
  hindranceOfFailure,
  hindranceOfWait,
  isAppError,
  isDomainBusy,
  messageOf,
  requestsReported,
  retryAfterMs,
  type AppError,
  type ErrorCode,
  type Hindrance,
  type NodeAction,
  type NodeVmFacts,
} from "@patchbay/core";
import { keyOf, printKey } from "@patchbay/kube";
import type { Deps } from "../../deps.ts";
import type { Session } from "../../sessions.ts";
import type { Try } from "../../tries.ts";

type IfaceAction = Extract<NodeAction, { iface: string }>;
type FallibleAction = Exclude<IfaceAction, { kind: "wait" }>;

/** What came of a plan. */
export interface Outcome {
  /** Whether anything was changed, so that it is worth looking again. */
  readonly changed: boolean;
  readonly hindrances: Readonly<Record<string, Hindrance>>;
  /** When to look again if nothing wakes the loop before. */
  readonly againInMs: number | undefined;
  /** What ended the connection to libvirt. */
  readonly lost?: AppError;
}

interface Turn {
  readonly facts: NodeVmFacts;
  readonly session: Session;
  readonly deps: Deps;
}

/** Takes some refusals for success: what was asked for is so already, or is on its way. */
async function tolerate(call: Promise<void>, ...codes: readonly ErrorCode[]): Promise<void> {
  try {
    await call;
  } catch (error) {
    if (!codes.some((code) => isAppError(error, code))) throw error;
  }
}

/**
 * Puts the device into the definition, then into the running guest. libvirt refuses both at once where they differ;
 * in this order a repeated step finds the definition as it left it.
 */
async function attach(alias: string, xml: string, { facts, session }: Turn): Promise<void> {
  const { connection } = session;
  const name = domainNameOf(facts.vmi);
  await tolerate(connection.detachDevice(name, alias, "config"), "LIBVIRT_DEVICE_MISSING");
  await connection.attachDevice(name, xml, "config");
  await tolerate(connection.attachDevice(name, xml, "live"), "LIBVIRT_DEVICE_EXISTS");
}

/** Takes the device out of the definition, then asks the running guest to let go of it. */
async function detach(iface: string, alias: string, { facts, session, deps }: Turn): Promise<void> {
  const { connection } = session;
  const name = domainNameOf(facts.vmi);
  await tolerate(connection.detachDevice(name, alias, "config"), "LIBVIRT_DEVICE_MISSING");
  const before = requestsReported(findByName(facts.ifaces, iface)?.reported);
  const note = (): void => {
    deps.asked.note(facts.vmi.metadata.uid ?? "", iface, before);
  };
  try {
    const live = connection.detachDevice(name, alias, "live");
    // It went meanwhile; or an earlier request is still with the guest.
    await tolerate(live, "LIBVIRT_DEVICE_MISSING", "LIBVIRT_UNPLUG_PENDING");
    note();
  } catch (error) {
    // Nobody knows whether the guest heard it.
    if (isLost(error)) note();
    throw error;
  }
}

async function performOnIface(action: FallibleAction, turn: Turn): Promise<void> {
  const { facts, session, deps } = turn;
  const { netns } = session.launcher;
  switch (action.kind) {
    case "wireTap": {
      const mtu = findByName(facts.ifaces, action.iface)?.links.mtu ?? 0;
      const wiring = { ...action.wiring, mtu, owner: names.LAUNCHER_UID };
      await deps.podNetwork.wireTap(netns, wiring);
      return;
    }
    case "unwireTap":
      await deps.podNetwork.unwireTap(netns, action.wiring);
      return;
    case "attachDevice":
      await attach(aliasOf(action.iface), action.xml, turn);
      return;
    case "detachDevice":
      await detach(action.iface, action.alias, turn);
  }
}

async function performOnDomain(action: NodeAction, turn: Turn): Promise<void> {
  const { facts, session, deps } = turn;
  const name = domainNameOf(facts.vmi);
  try {
    if (action.kind === "defineDomain") await session.connection.defineDomain(action.xml);
    if (action.kind === "startDomain") await session.connection.startDomain(name);
  } catch (error) {
    // Without a guest there is no iface to tell it of.
    const message = `the guest cannot be started: ${messageOf(error)}`;
    deps.events.record(facts.vmi, { type: "Warning", reason: "SyncFailed", message });
    throw error;
  }
}

/** Whether the libvirt of this VMI cannot be used at all, so that no further step makes sense. */
function isLost(error: unknown): error is AppError {
  return isAppError(error, "LIBVIRT_CONNECTION_LOST") || isAppError(error, "LIBVIRT_TIMED_OUT");
}

function logAction(action: NodeAction, turn: Turn, startedMs: number): void {
  const { vmi } = turn.facts;
  turn.deps.log.info("performed step", {
    vmi: printKey(keyOf(vmi)),
    action: action.kind,
    ...("iface" in action ? { iface: action.iface } : {}),
    durationMs: Math.round(turn.deps.clock.monotonicMs() - startedMs),
  });
}

/** What came of a step that was not done. */
interface Obstacle {
  readonly hindrance: Hindrance;
  /** Absent: only an event helps. */
  readonly pauseMs: number | undefined;
  /** What was thrown; absent where nothing was tried. */
  readonly error?: unknown;
}

/** The same step under the same circumstances: other NICs may free what it needs. */
function tryOf(action: IfaceAction, { facts }: Turn): Try {
  const nics = facts.domain?.facts.nics.map(({ alias }) => alias) ?? [];
  const key = JSON.stringify([action, nics]);
  return { uid: facts.vmi.metadata.uid ?? "", iface: action.iface, key };
}

/** Notes a failure and leaves the step alone for a time. */
function putOff(action: FallibleAction, error: unknown, turn: Turn): Obstacle {
  const { reported } = findByName(turn.facts.ifaces, action.iface) ?? {};
  const hindrance = hindranceOfFailure(action.kind, error, reported);
  const pauseMs = retryAfterMs(error, hindrance.attempts);
  turn.deps.tries.hold(tryOf(action, turn), { hindrance, pauseMs });
  return { hindrance, pauseMs, error };
}

/** Performs one step on an iface. */
async function tryOnIface(action: FallibleAction, turn: Turn): Promise<Obstacle | undefined> {
  const { deps } = turn;
  const startedMs = deps.clock.monotonicMs();
  try {
    await performOnIface(action, turn);
    logAction(action, turn, startedMs);
    return undefined;
  } catch (error) {
    const obstacle = putOff(action, error, turn);
    if (isLost(error)) return obstacle; // thrown on, and told by the loop's runner
    const { kind, iface } = action;
    const { attempts: attempt } = obstacle.hindrance;
    deps.log.warn("step failed", { action: kind, iface, attempt, err: error });
    return obstacle;
  }
}

function waitOn(action: Extract<IfaceAction, { kind: "wait" }>, { facts, deps }: Turn): Obstacle {
  const asked = deps.asked.count(facts.vmi.metadata.uid ?? "", action.iface);
  return { hindrance: hindranceOfWait(action, asked, facts), pauseMs: action.forMs };
}

/** Whether the step is a call of libvirt. */
function isOnDevice({ kind }: FallibleAction): boolean {
  return kind === "attachDevice" || kind === "detachDevice";
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
    const held = turn.deps.tries.findHeld(tryOf(action, turn));
    if (held !== undefined) return held;
    return this.#stop !== undefined && isOnDevice(action)
      ? putOff(action, this.#stop, turn)
      : tryOnIface(action, turn);
  }
}

function outcomeOf({ obstacles, hasChanged, lost }: IfaceTurns, hasStarted: boolean): Outcome {
  const pauses = [...obstacles.values()].flatMap(({ pauseMs }) => pauseMs ?? []);
  const hindrances = [...obstacles].map(([iface, { hindrance }]) => [iface, hindrance] as const);
  return {
    changed: hasChanged || hasStarted,
    hindrances: Object.fromEntries(hindrances),
    againInMs: pauses.length === 0 ? undefined : Math.min(...pauses),
    ...(lost === undefined ? {} : { lost }),
  };
}

/** Performs the plan in order; steps of an iface that failed, or are left alone after they failed, are left out. */
export async function actNodeVm(plan: readonly NodeAction[], turn: Turn): Promise<Outcome> {
  const turns = new IfaceTurns(turn);
  let hasStarted = false;
  for (const action of plan) {
    if ("iface" in action) {
      await turns.take(action);
      continue;
    }
    const startedMs = turn.deps.clock.monotonicMs();
    await performOnDomain(action, turn);
    logAction(action, turn, startedMs);
    hasStarted = true;
  }
  return outcomeOf(turns, hasStarted);
}
