// SPDX-License-Identifier: Apache-2.0
// Performs a node plan in order. An iface whose step fails holds up no other.
import {
  hindranceOfWait,
  LINKS_RESTLESS,
  isDomainBusy,
  type AppError,
  type Hindrance,
  type NodeAction,
} from "@patchbay/core";
import { WIRING_REFILL_MS } from "../../pace.ts";
import {
  fallibleOf,
  performOnIface,
  type FallibleAction,
  type IfaceAction,
} from "./iface-steps.ts";
import { serveAddresses } from "./serve-addresses.ts";
import { isOnDomain, startGuest } from "./start-guest.ts";
import { sweepLinks } from "./sweep-links.ts";
import { findHeld, putOff, tryStep, type Obstacle } from "./tries.ts";
import { isLost, timed, type Turn } from "./turn.ts";

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

async function tryOnIface(action: FallibleAction, turn: Turn): Promise<Obstacle | undefined> {
  const obstacle = await tryStep(
    fallibleOf(action, turn),
    () => timed(action, turn, () => performOnIface(action, turn)),
    turn,
  );
  // A lost connection is told of the pass as a whole.
  if (obstacle !== undefined && !isLost(obstacle.error)) {
    const { kind, iface } = action;
    const { attempts: attempt } = obstacle.hindrance;
    turn.deps.log.warn("step failed", { action: kind, iface, attempt, err: obstacle.error });
  }
  return obstacle;
}

function waitOn(action: Extract<IfaceAction, { kind: "wait" }>, { facts }: Turn): Obstacle {
  return { hindrance: hindranceOfWait(action, facts), pauseMs: action.forMs };
}

const ON_DEVICE: readonly NodeAction["kind"][] = [
  "attachDevice",
  "detachDevice",
  "setLink",
  "switchNetwork",
];

/** Whether the step calls libvirt. */
function isOnDevice({ kind }: NodeAction): boolean {
  return ON_DEVICE.includes(kind);
}

/** Whether the domain may be another after the step. */
export function callsLibvirt(action: NodeAction): boolean {
  return isOnDevice(action) || isOnDomain(action);
}

/** `stop`: why no call on the domain would fare better: it is busy, and each would wait as long; or libvirt is lost. */
function take(
  action: IfaceAction,
  stop: unknown,
  turn: Turn,
): Obstacle | undefined | Promise<Obstacle | undefined> {
  if (action.kind === "wait") return waitOn(action, turn);
  const step = fallibleOf(action, turn);
  const held = findHeld(step, turn);
  if (held !== undefined) return held;
  if (action.kind === "wireTap" && !turn.deps.wirings.take(turn.facts.vmi, action.iface)) {
    return { hindrance: { ...LINKS_RESTLESS, attempts: 0 }, pauseMs: WIRING_REFILL_MS };
  }
  return stop !== undefined && isOnDevice(action)
    ? putOff(step, stop, turn)
    : tryOnIface(action, turn);
}

/** What keeps ifaces from going on, by their names. A step rests on the one before it for the same iface. */
async function actOnIfaces(actions: readonly IfaceAction[], turn: Turn): Promise<OnIfaces> {
  const obstacles = new Map<string, Obstacle>();
  let hasChanged = false;
  let stop: unknown;
  for (const action of actions) {
    if (obstacles.has(action.iface)) continue;
    const obstacle = await take(action, stop, turn);
    if (obstacle === undefined) {
      hasChanged = true;
      continue;
    }
    obstacles.set(action.iface, obstacle);
    const { error } = obstacle;
    if (isLost(error) || isDomainBusy(error)) stop = error;
  }
  return { obstacles, hasChanged };
}

/** What keeps links of nobody where they are. */
async function sweepAll(
  plan: readonly NodeAction[],
  turn: Turn,
): Promise<{ readonly obstacles: readonly Obstacle[]; readonly hasChanged: boolean }> {
  const sweeps = plan.filter((action) => action.kind === "sweepLinks");
  const obstacles: Obstacle[] = [];
  for (const action of sweeps) {
    const obstacle = await sweepLinks(action, turn);
    if (obstacle !== undefined) obstacles.push(obstacle);
  }
  return { obstacles, hasChanged: obstacles.length < sweeps.length };
}

/** What came of steps on ifaces: what keeps them from going on, by their names. */
interface OnIfaces {
  readonly obstacles: ReadonlyMap<string, Obstacle>;
  readonly hasChanged: boolean;
}

/** The server of the VM, where it is another from now on; every iface that it is for hears of its failure. */
async function serveAll(plan: readonly NodeAction[], turn: Turn): Promise<OnIfaces> {
  const obstacles = new Map<string, Obstacle>();
  let hasChanged = false;
  for (const action of plan) {
    if (action.kind !== "serveAddresses") continue;
    const obstacle = await serveAddresses(action, turn);
    hasChanged ||= obstacle === undefined;
    if (obstacle === undefined) continue;
    for (const { iface } of action.nics) obstacles.set(iface, obstacle);
  }
  return { obstacles, hasChanged };
}

/**
 * The server first, but that it starts while devices come, which takes longer: a guest needs a moment to ask, and asks
 * again.
 */
async function serveAndAct(
  plan: readonly NodeAction[],
  onIfaces: readonly IfaceAction[],
  turn: Turn,
): Promise<readonly [OnIfaces, OnIfaces]> {
  const isPlug = onIfaces.every(({ kind }) => kind === "attachDevice" || kind === "wait");
  const serving = serveAll(plan, turn);
  if (isPlug) return Promise.all([serving, actOnIfaces(onIfaces, turn)]);
  return [await serving, await actOnIfaces(onIfaces, turn)];
}

/** Performs the plan in order; steps that failed, or are left alone after they failed, are left out. */
export async function actNodeVm(plan: readonly NodeAction[], turn: Turn): Promise<Outcome> {
  const onIfaces = plan.filter((action) => "iface" in action);
  const [served, { obstacles, hasChanged }] = await serveAndAct(plan, onIfaces, turn);
  const swept = await sweepAll(plan, turn);
  // Last, as in every plan: what is left of ifaces is taken away before.
  const onDomain = plan.filter(isOnDomain);
  const start = onDomain.length === 0 ? undefined : await startGuest(onDomain, turn);
  const all = [
    ...served.obstacles.values(),
    ...obstacles.values(),
    ...swept.obstacles,
    start ?? [],
  ].flat();
  const isStarted = onDomain.length > 0 && start === undefined;
  const pauses = all.flatMap(({ pauseMs }) => pauseMs ?? []);
  const hindrances = [...served.obstacles, ...obstacles].map(
    ([iface, { hindrance }]) => [iface, hindrance] as const,
  );
  return {
    changed: hasChanged || served.hasChanged || swept.hasChanged || isStarted,
    hindrances: Object.fromEntries(hindrances),
    guest: start?.hindrance,
    againInMs: pauses.length === 0 ? undefined : Math.min(...pauses),
    lost: all.map(({ error }) => error).find(isLost),
  };
}
