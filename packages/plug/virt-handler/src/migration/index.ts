// SPDX-License-Identifier: Apache-2.0
// One pass over a VMI that migrates from this node or to it.
import type { VirtualMachineInstance, MigrationState } from "@patchbay/api";
import {
  announcedNics,
  leftWirings,
  messageOf,
  type NodeVmFacts,
  broughtAlong,
  domainNameOf,
  findByName,
  openMigration,
} from "@patchbay/core";
import { keyOf, printKey, after, done, type Next } from "@patchbay/kube";
import type { PodNetwork } from "@patchbay/core/ports";
import type { Deps } from "../deps.ts";
import { observeNodeVm } from "../reconcilers/vmi/observe.ts";
import type { Place } from "../reconcilers/vmi/steps/step-context.ts";
import { arrive, hasItsDisks } from "./incoming.ts";
import { depart, placeOf, PROGRESS_MS } from "./outgoing.ts";
import type { Move } from "./moves.ts";

type Netns = Parameters<PodNetwork["announce"]>[0];

async function attempt(
  vmi: VirtualMachineInstance,
  { place, deps }: { readonly place: Place; readonly deps: Deps },
  act: (facts: NodeVmFacts, netns: Netns) => Promise<void>,
): Promise<boolean> {
  try {
    await act(await observeNodeVm(vmi, place, deps), place.session.launcher.netns);
    return true;
  } catch (error) {
    const fields = { vmi: printKey(keyOf(vmi)), reason: messageOf(error) };
    deps.log.warn("the macs of a guest that moves may be heard in another place", fields);
    return false;
  }
}

/** Announces the guest's MACs, because networks may have learned them at the target. May be repeated. */
async function announceGuest(vmi: VirtualMachineInstance, place: Place, deps: Deps): Promise<void> {
  await attempt(vmi, { place, deps }, async (facts, netns) => {
    for (const nic of announcedNics(facts)) await deps.podNetwork.announce(netns, nic);
  });
}

/**
 * Detaches the pod from its guest's MACs: two macvlans of one parent cannot share a MAC, and switches must not learn it here. May
 * be repeated. Returns whether it succeeded.
 */
function releaseGuest(vmi: VirtualMachineInstance, place: Place, deps: Deps): Promise<boolean> {
  return attempt(vmi, { place, deps }, async (facts, netns) => {
    for (const wiring of leftWirings(facts, place.pod.uid))
      await deps.podNetwork.wireTap(netns, wiring);
  });
}

/** Interval for checking an incoming guest that is paused because it differs, milliseconds. No event may report a repair. */
const HELD_MS = 10_000;

/** Retry interval for releasing the guest's MACs, milliseconds. It is short because the target may wait for them. */
const RELEASE_MS = 500;

/** The regular part of a pass, which converges links and devices. */
type Converge = () => Promise<{ readonly facts: NodeVmFacts; readonly next: Next }>;

/** Whether the links of all NICs that the guest brings along are wired here. */
function isWired(vmi: VirtualMachineInstance, { ifaces }: NodeVmFacts): boolean {
  return broughtAlong(vmi).every(({ name = "" }) => findByName(ifaces, name)?.links.wired === true);
}

function sooner(next: Next, ms: number): Next {
  return next.kind === "after" ? after(Math.min(next.ms, ms)) : after(ms);
}

interface Rest {
  readonly deps: Deps;
  readonly converge: Converge;
}

/** The open migration of the VMI and this process's state of it; undefined without a migration. */
function underWay(
  vmi: VirtualMachineInstance,
  { moves }: Pick<Deps, "moves">,
): { readonly migration: MigrationState; readonly move: Move } | undefined {
  const migration = openMigration(vmi);
  const move = moves.of(vmi);
  return migration === undefined || move === undefined ? undefined : { migration, move };
}

async function leave(
  vmi: VirtualMachineInstance,
  place: Place,
  { deps, converge }: Rest,
): Promise<Next> {
  const found = underWay(vmi, deps);
  if (found === undefined) return (await converge()).next;
  const { migration, move } = found;
  const { session, wake } = place;
  const announce = (): Promise<void> => announceGuest(vmi, place, deps);
  const hasLeft = await depart({ vmi, migration, move, session, wake, announce, deps });
  if (hasLeft) {
    move.isReleased ||= await releaseGuest(vmi, place, deps);
    return move.isReleased ? done() : after(RELEASE_MS);
  }
  const { next } = await converge();
  return move.call === "running" || move.job !== undefined ? sooner(next, PROGRESS_MS) : next;
}

/** Wires the links until the incoming domain appears, and changes nothing from then on. */
async function receive(
  vmi: VirtualMachineInstance,
  place: Place,
  { deps, converge }: Rest,
): Promise<Next> {
  const found = underWay(vmi, deps);
  if (found === undefined) return done();
  const { migration, move } = found;
  const { session } = place;
  session.look();
  const domain = await session.connection.findDomain(domainNameOf(vmi));
  const arrival = { vmi, migration, move, place, deps };
  if (domain !== undefined) {
    const isHeld = await arrive(arrival, { domain, isWired: true });
    return isHeld ? after(HELD_MS) : done();
  }
  const { facts, next } = await converge();
  await arrive(arrival, { domain, isWired: isWired(vmi, facts) && hasItsDisks(arrival) });
  return next;
}

/** One pass over a migrating VMI. `converge` is the regular part of the pass. */
export function moveGuest(vmi: VirtualMachineInstance, place: Place, rest: Rest): Promise<Next> {
  return place.role === "owner" ? leave(vmi, place, rest) : receive(vmi, place, rest);
}

/**
 * Completes the source's part after the guest has left, when its launcher may have ended. Returns true when nothing is left to do;
 * until the pod has released the guest's MACs, the target may be unable to use them.
 */
export async function tellLeft(
  vmi: VirtualMachineInstance,
  wake: () => void,
  deps: Deps,
): Promise<boolean> {
  const migration = openMigration(vmi);
  const move = deps.moves.of(vmi);
  if (migration === undefined || move?.call !== "arrived") return false;
  // A relay to the target's new address must be created in the launcher's directory, which needs a session.
  if (!move.leadsTo(placeOf({ migration }))) return false;
  const announce = (): Promise<void> => Promise.resolve();
  await depart({ vmi, migration, move, session: undefined, wake, announce, deps });
  return move.isReleased;
}
