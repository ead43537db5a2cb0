// SPDX-License-Identifier: Apache-2.0
// A pass over a VMI whose guest is on its way: from this node, or to it.
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

/** The launcher's namespace. */
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

/** Networks may have heard it at the pod to which it was to go. May be repeated. */
async function announceGuest(vmi: VirtualMachineInstance, place: Place, deps: Deps): Promise<void> {
  await attempt(vmi, { place, deps }, async (facts, netns) => {
    for (const nic of announcedNics(facts)) await deps.podNetwork.announce(netns, nic);
  });
}

/** Two macvlans of one parent cannot have the same MAC, and no switch is to hear the guest here. May be repeated; whether it is done. */
function releaseGuest(vmi: VirtualMachineInstance, place: Place, deps: Deps): Promise<boolean> {
  return attempt(vmi, { place, deps }, async (facts, netns) => {
    for (const wiring of leftWirings(facts, place.pod.uid))
      await deps.podNetwork.wireTap(netns, wiring);
  });
}

/** How often it is looked whether a guest that is held still differs, milliseconds: what it waits for may tell nobody. */
const HELD_MS = 10_000;

/** When a pod that could not let go of its guest's MACs tries again, milliseconds: the guest may wait for them. */
const RELEASE_MS = 500;

/** The rest of a pass: what is done with the VMI's links and devices, and what it came to. */
type Converge = () => Promise<{ readonly facts: NodeVmFacts; readonly next: Next }>;

/** Whether each NIC that the guest brings along has its links here. */
function isWired(vmi: VirtualMachineInstance, { ifaces }: NodeVmFacts): boolean {
  return broughtAlong(vmi).every(({ name = "" }) => findByName(ifaces, name)?.links.wired === true);
}

function sooner(next: Next, ms: number): Next {
  return next.kind === "after" ? after(Math.min(next.ms, ms)) : after(ms);
}

/** What a pass has beside the VMI and its place. */
interface Rest {
  readonly deps: Deps;
  readonly converge: Converge;
}

/** The migration that the VMI is in, and what this process has begun of it; undefined: it is in none. */
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

/** While there is nothing of it yet, its links are made; from then on nothing is changed. */
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

/** One pass with a launcher that answers; `converge` is what is done with a VMI beside that. */
export function moveGuest(vmi: VirtualMachineInstance, place: Place, rest: Rest): Promise<Next> {
  return place.role === "owner" ? leave(vmi, place, rest) : receive(vmi, place, rest);
}

/**
 * The guest has left, and its launcher may have ended: what is still to be said is said. True where that is all there is to do: as long as
 * its pod has the guest's MACs the target may not be able to take them.
 */
export async function tellLeft(
  vmi: VirtualMachineInstance,
  wake: () => void,
  deps: Deps,
): Promise<boolean> {
  const migration = openMigration(vmi);
  const move = deps.moves.of(vmi);
  if (migration === undefined || move?.call !== "arrived") return false;
  // A relay to where it listens now is made in the launcher's directory.
  if (!move.leadsTo(placeOf({ migration }))) return false;
  const announce = (): Promise<void> => Promise.resolve();
  await depart({ vmi, migration, move, session: undefined, wake, announce, deps });
  return move.isReleased;
}
