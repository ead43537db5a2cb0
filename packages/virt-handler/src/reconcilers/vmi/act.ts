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
  type ErrorCode,
  type Hindrance,
  type NodeAction,
  type NodeVmFacts,
} from "@patchbay/core";
import { keyOf, printKey } from "@patchbay/kube";
import type { Deps } from "../../deps.ts";
import type { Session } from "../../sessions.ts";

type IfaceAction = Extract<NodeAction, { iface: string }>;

/** What came of a plan. */
export interface Outcome {
  /** Whether anything was changed, so that it is worth looking again. */
  readonly changed: boolean;
  readonly hindrances: Readonly<Record<string, Hindrance>>;
  /** When to look again if nothing wakes the loop before. */
  readonly againInMs: number | undefined;
}

interface Turn {
  readonly facts: NodeVmFacts;
  readonly session: Session;
  readonly deps: Deps;
}

/** Longest pause between two tries of one iface. */
const RETRY_MAX_MS = 60_000;

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
  deps.asked.note(facts.vmi.metadata.uid ?? "", iface);
  const { connection } = session;
  const name = domainNameOf(facts.vmi);
  await tolerate(connection.detachDevice(name, alias, "config"), "LIBVIRT_DEVICE_MISSING");
  const live = connection.detachDevice(name, alias, "live");
  // It went meanwhile; or an earlier request is still with the guest.
  await tolerate(live, "LIBVIRT_DEVICE_MISSING", "LIBVIRT_UNPLUG_PENDING");
}

async function performOnIface(action: IfaceAction, turn: Turn): Promise<void> {
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
      return;
    case "wait":
  }
}

async function performOnDomain(action: NodeAction, { facts, session }: Turn): Promise<void> {
  if (action.kind === "defineDomain") await session.connection.defineDomain(action.xml);
  if (action.kind === "startDomain") await session.connection.startDomain(domainNameOf(facts.vmi));
}

/** Whether the libvirt of this VMI cannot be used at all, so that no further step makes sense. */
function isFatal(error: unknown): boolean {
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

/** Performs one step on an iface; a failure is its hindrance. */
async function tryOnIface(action: IfaceAction, turn: Turn): Promise<Hindrance | undefined> {
  const { facts, deps } = turn;
  if (action.kind === "wait") {
    const asked = deps.asked.count(facts.vmi.metadata.uid ?? "", action.iface);
    return hindranceOfWait(action, asked, facts.vmi);
  }
  const startedMs = deps.clock.monotonicMs();
  try {
    await performOnIface(action, turn);
    logAction(action, turn, startedMs);
    return undefined;
  } catch (error) {
    if (isFatal(error)) throw error;
    deps.log.warn("step failed", { action: action.kind, iface: action.iface, err: error });
    return hindranceOfFailure(action, error, findByName(facts.ifaces, action.iface)?.reported);
  }
}

function pauseMs(action: IfaceAction, hindrance: Hindrance): number | undefined {
  if (action.kind === "wait") return action.forMs;
  return Math.min(1000 * 2 ** Math.min(hindrance.attempts, 10), RETRY_MAX_MS);
}

/** Performs the plan in order; steps of an iface that failed are left out. */
export async function actNodeVm(plan: readonly NodeAction[], turn: Turn): Promise<Outcome> {
  const hindrances: Record<string, Hindrance> = {};
  const pauses: number[] = [];
  let changed = false;
  for (const action of plan) {
    if (!("iface" in action)) {
      const startedMs = turn.deps.clock.monotonicMs();
      await performOnDomain(action, turn);
      logAction(action, turn, startedMs);
      changed = true;
      continue;
    }
    if (hindrances[action.iface] !== undefined) continue;
    const hindrance = await tryOnIface(action, turn);
    if (hindrance === undefined) {
      changed = true;
      continue;
    }
    hindrances[action.iface] = hindrance;
    const pause = pauseMs(action, hindrance);
    if (pause !== undefined) pauses.push(pause);
  }
  return { changed, hindrances, againInMs: pauses.length === 0 ? undefined : Math.min(...pauses) };
}
