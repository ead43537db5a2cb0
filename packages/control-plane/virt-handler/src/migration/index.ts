// SPDX-License-Identifier: Apache-2.0
import type { VirtualMachineInstance, MigrationState } from "@patchbay/api";
import {
  listAnnouncedNics,
  listOutgoingWirings,
  listMigratingIfaces,
  openMigration,
} from "@patchbay/core/migration";
import { messageOf } from "@patchbay/base";
import { type NodeVmFacts, domainNameOf } from "@patchbay/core/vm";
import { findByName } from "@patchbay/core/nics";
import { keyOf, printKey, after, done, type Next } from "@patchbay/kube";
import type { PodNetwork } from "@patchbay/core/interfaces";
import type { Deps } from "../deps.ts";
import { observeNodeVm } from "../reconcilers/vmi/observe.ts";
import type { LauncherContext } from "../reconcilers/vmi/steps/step-context.ts";
import { receiveGuest, ensureCloudInitDisks } from "./incoming.ts";
import { sendGuest, targetEndpoint, PROGRESS_INTERVAL_MS } from "./outgoing.ts";
import type { MigrationRun } from "./migration-runs.ts";

type Netns = Parameters<PodNetwork["announce"]>[0];

async function tryLinkUpdate(
  vmi: VirtualMachineInstance,
  { launcher, deps }: { readonly launcher: LauncherContext; readonly deps: Deps },
  update: (facts: NodeVmFacts, netns: Netns) => Promise<void>,
): Promise<boolean> {
  try {
    await update(await observeNodeVm(vmi, launcher, deps), launcher.session.launcher.netns);
    return true;
  } catch (error) {
    const fields = { vmi: printKey(keyOf(vmi)), reason: messageOf(error) };
    deps.log.warn(
      "failed to update the macs of a migrating guest; switches may send its frames to the wrong node",
      fields,
    );
    return false;
  }
}

/** Announces the guest's MACs from this node, the source, because switches may have learned them at the target. */
async function announceMacs(
  vmi: VirtualMachineInstance,
  launcher: LauncherContext,
  deps: Deps,
): Promise<void> {
  await tryLinkUpdate(vmi, { launcher, deps }, async (facts, netns) => {
    for (const nic of listAnnouncedNics(facts)) await deps.podNetwork.announce(netns, nic);
  });
}

/** Releases the guest's MACs for the target, because two macvlans of one parent cannot share a MAC. Returns false on failure. */
function releaseMacs(
  vmi: VirtualMachineInstance,
  launcher: LauncherContext,
  deps: Deps,
): Promise<boolean> {
  return tryLinkUpdate(vmi, { launcher, deps }, async (facts, netns) => {
    for (const wiring of listOutgoingWirings(facts, launcher.pod.uid))
      await deps.podNetwork.wireTap(netns, wiring);
  });
}

/** Interval for checking an incoming guest that faults keep paused, in milliseconds. The repair of a fault may cause no event. */
const PAUSED_CHECK_INTERVAL_MS = 10_000;

/** Retry interval for releasing the guest's MACs, in milliseconds. The interval is short, because the target may wait for the MACs. */
const RELEASE_RETRY_INTERVAL_MS = 500;

type Converge = () => Promise<{ readonly facts: NodeVmFacts; readonly next: Next }>;

function isWired(vmi: VirtualMachineInstance, { ifaces }: NodeVmFacts): boolean {
  return listMigratingIfaces(vmi).every(
    ({ name = "" }) => findByName(ifaces, name)?.links.isWired === true,
  );
}

function limitDelay(next: Next, ms: number): Next {
  return next.kind === "after" ? after(Math.min(next.ms, ms)) : after(ms);
}

interface PassContext {
  readonly deps: Deps;
  readonly converge: Converge;
}

function findMigration(
  vmi: VirtualMachineInstance,
  { migrationRuns }: Pick<Deps, "migrationRuns">,
): { readonly migration: MigrationState; readonly run: MigrationRun } | undefined {
  const migration = openMigration(vmi);
  const run = migrationRuns.find(vmi);
  return migration === undefined || run === undefined ? undefined : { migration, run };
}

async function reconcileOutgoing(
  vmi: VirtualMachineInstance,
  launcher: LauncherContext,
  { deps, converge }: PassContext,
): Promise<Next> {
  const found = findMigration(vmi, deps);
  if (found === undefined) return (await converge()).next;
  const { migration, run } = found;
  const { session, wake } = launcher;
  const announce = (): Promise<void> => announceMacs(vmi, launcher, deps);
  const hasLeft = await sendGuest({ vmi, migration, run, session, wake, announce, deps });
  if (hasLeft) {
    run.hasReleasedMacs ||= await releaseMacs(vmi, launcher, deps);
    return run.hasReleasedMacs ? done() : after(RELEASE_RETRY_INTERVAL_MS);
  }
  const { next } = await converge();
  return run.call === "running" || run.job !== undefined
    ? limitDelay(next, PROGRESS_INTERVAL_MS)
    : next;
}

/** Runs the regular pass until the incoming domain exists. From then on, runs only the steps of the migration. */
async function reconcileIncoming(
  vmi: VirtualMachineInstance,
  launcher: LauncherContext,
  { deps, converge }: PassContext,
): Promise<Next> {
  const found = findMigration(vmi, deps);
  if (found === undefined) return done();
  const { migration, run } = found;
  const { session } = launcher;
  session.markObserved();
  const domain = await session.connection.findDomain(domainNameOf(vmi));
  const incoming = { vmi, migration, run, launcher, deps };
  if (domain !== undefined) {
    const mustStayPaused = await receiveGuest(incoming, { domain, isWired: true });
    return mustStayPaused ? after(PAUSED_CHECK_INTERVAL_MS) : done();
  }
  const { facts, next } = await converge();
  await receiveGuest(incoming, {
    domain,
    isWired: isWired(vmi, facts) && ensureCloudInitDisks(incoming),
  });
  return next;
}

/** Runs one pass over a migrating VMI. `context.converge` runs the regular part of the pass. */
export function reconcileMigration(
  vmi: VirtualMachineInstance,
  launcher: LauncherContext,
  context: PassContext,
): Promise<Next> {
  return launcher.role === "owner"
    ? reconcileOutgoing(vmi, launcher, context)
    : reconcileIncoming(vmi, launcher, context);
}

/** Continues an outgoing migration after the guest's arrival. Returns true if the pod has released the guest's MACs. */
export async function finishOutgoing(
  vmi: VirtualMachineInstance,
  wake: () => void,
  deps: Deps,
): Promise<boolean> {
  const migration = openMigration(vmi);
  const run = deps.migrationRuns.find(vmi);
  if (migration === undefined || run?.call !== "arrived") return false;
  // A changed target address requires a new relay, which cannot be started without a session.
  if (!run.connectsTo(targetEndpoint({ migration }))) return false;
  const announce = (): Promise<void> => Promise.resolve();
  await sendGuest({ vmi, migration, run, session: undefined, wake, announce, deps });
  return run.hasReleasedMacs;
}
