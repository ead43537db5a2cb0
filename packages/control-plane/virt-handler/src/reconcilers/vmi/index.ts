// SPDX-License-Identifier: Apache-2.0
// The node loop: turns the facts of one node into devices of the VM.
import { type VirtualMachineInstance, isVmiFinal } from "@patchbay/api";
import type { LauncherPod, HypervisorEvent } from "@patchbay/core/interfaces";
import type { Deps } from "../../deps.ts";
import { forgetVmi } from "../../memory.ts";
import { isAppError, type AppError } from "@patchbay/base";
import {
  findDrift,
  planNodeVm,
  type Drift,
  type NodeAction,
  type NodeVmFacts,
} from "@patchbay/core/vm";
import { hasRun } from "@patchbay/core/node";
import { launcherOn } from "@patchbay/core/migration";
import { mustReleaseDevice, nameOfAlias, listStages } from "@patchbay/core/nics";
import { done, keyOf, printKey, type Next, after, parseKey } from "@patchbay/kube";
import { PASS_REFILL_MS } from "../../rate-limits.ts";
import { reportFailure, reportNodeVm, announceDrift } from "./report.ts";
import { recordTaps } from "../../metrics/plugs.ts";
import { reconcileMigration, finishOutgoing } from "../../migration/index.ts";
import {
  actNodeVm,
  callsLibvirt,
  type NodePlanResult,
  stepNameOf,
  listStepNames,
  serveStepName,
  listSweepStepNames,
} from "./act.ts";
import type { Listener } from "../../sessions/sessions.ts";
import { queryGuestAgent } from "./guest-agent.ts";
import { observeNodeVm, type KnownFacts } from "./observe.ts";
import { START_STEP } from "./steps/start-guest.ts";
import type { LauncherContext } from "./steps/step-context.ts";

function releasePod(pod: LauncherPod, deps: Deps): void {
  const { sessions, guestHooks, guestServers, addressStore, log } = deps;
  sessions.close(pod);
  guestHooks.forget(pod);
  const ending = Promise.all([guestServers.stop(pod.uid), addressStore.forgetPod(pod.uid)]);
  ending.catch((err: unknown) => {
    log.warn("failed to remove the state of a pod", { uid: pod.uid, err });
  });
}

/** Records the current launcher of a VMI, and releases the previous one: its guest has left this node or never arrived. */
function trackLauncher(
  { metadata }: VirtualMachineInstance,
  launcher: LauncherPod | undefined,
  deps: Deps,
): void {
  const { uid = "" } = metadata;
  const known = deps.knownLaunchers.get(uid);
  if (known !== undefined && known.uid !== launcher?.uid) {
    releasePod(known, deps);
    deps.knownLaunchers.delete(uid);
    deps.migrationRuns.forget(uid);
  }
  if (launcher !== undefined) deps.knownLaunchers.set(uid, launcher);
}

export function releaseVmi(vmi: VirtualMachineInstance, deps: Deps): void {
  trackLauncher(vmi, undefined, deps);
  const { uid = "" } = vmi.metadata;
  deps.migrationRuns.forget(uid);
  forgetVmi(uid, deps);
}

/** Errors of the launcher: its own, and those of the CRI, libvirt, the domain, the pod's links and the OS. */
const LAUNCHER_ERRORS = /^(?:LAUNCHER|CRI|LIBVIRT|DOMAIN|PODNET|OS)_/;

function isLauncherError(error: unknown): error is AppError {
  return isAppError(error) && LAUNCHER_ERRORS.test(error.code);
}

/** Milliseconds to wait because the launcher backs off or the VMI used up its passes; undefined when a pass may run. */
export function findDelayMs(
  vmi: VirtualMachineInstance,
  pod: LauncherPod,
  { passBudget, sessions }: Pick<Deps, "passBudget" | "sessions">,
): number | undefined {
  const pauseMs = sessions.backoffMs(pod);
  if (pauseMs > 0) return pauseMs;
  return passBudget.take(vmi) ? undefined : PASS_REFILL_MS;
}

function resetFailures({ metadata }: VirtualMachineInstance, { failedPasses }: Deps): void {
  failedPasses.delete(metadata.uid ?? "");
}

/** Rethrows, so that the queue backs off. */
async function handleFailedPass(
  vmi: VirtualMachineInstance,
  error: unknown,
  deps: Deps,
): Promise<Next> {
  if (!isLauncherError(error)) throw error;
  if (error.code !== "LAUNCHER_UNREACHABLE") {
    const { uid = "" } = vmi.metadata;
    const failures = (deps.failedPasses.get(uid) ?? 0) + 1;
    deps.failedPasses.set(uid, failures);
    await reportFailure(vmi, { error, failures }, deps);
    throw error;
  }
  await reportFailure(vmi, { error, failures: 0 }, deps);
  // The watch on the socket wakes this key. A socket on which nobody listens causes no event, so those errors are rethrown above.
  deps.log.debug("launcher is not reachable", { vmi: printKey(keyOf(vmi)), reason: error.message });
  return done();
}

/** While the pod is created, a mount may still cover the launcher's path, and inotify does not report that. */
const PHASES_BEFORE_LAUNCHER: readonly (string | undefined)[] = ["Pending", "Scheduling"];
/** Remember addresses, wire, attach and check once more: each pass does what the previous one made possible. */
const PASSES_MAX = 5;

/** With the uid from the status and the name that virt-controller assigns. Undefined when the guest has left the node. */
export function findLauncher(
  vmi: VirtualMachineInstance,
  { nodeName }: Pick<Deps, "nodeName">,
): (LauncherPod & Pick<LauncherContext, "role">) | undefined {
  const launcher = launcherOn(vmi, nodeName);
  if (launcher === undefined) return undefined;
  return { ...launcher, namespace: vmi.metadata.namespace ?? "" };
}

/** Drifts that this pass repaired. Repairs fail while a guest shuts down, because its taps vanish. */
function findRepairedDrifts(
  plan: readonly NodeAction[],
  facts: NodeVmFacts,
  result: NodePlanResult,
): readonly Drift[] {
  const repairs = plan.filter((action) => "iface" in action && result.done.has(stepNameOf(action)));
  return findDrift(repairs, facts);
}

function selectReportableDrifts(
  drifts: readonly Drift[],
  { domain }: NodeVmFacts,
  { connectionError }: NodePlanResult,
): readonly Drift[] {
  return connectionError === undefined && domain?.running === true ? drifts : [];
}

async function converge(
  vmi: VirtualMachineInstance,
  place: LauncherContext,
  deps: Deps,
): Promise<{ facts: NodeVmFacts; result: NodePlanResult }> {
  let known: KnownFacts = {};
  const drifts: Drift[] = [];
  for (let pass = 1; ; pass += 1) {
    const facts = await observeNodeVm(vmi, { ...place, ...known }, deps);
    const plan = planNodeVm(facts);
    // Only the owner records phases; a migration target continues with those in the status.
    if (place.role === "owner") {
      deps.phaseTimings.observe(vmi, listStages(facts.ifaces, vmi.metadata.namespace ?? ""));
    }
    const result = await actNodeVm(plan, { ...place, facts, deps });
    drifts.push(...findRepairedDrifts(plan, facts, result));
    if (!result.changed || result.connectionError !== undefined || pass === PASSES_MAX) {
      for (const drift of selectReportableDrifts(drifts, facts, result))
        announceDrift(vmi, drift, deps);
      return { facts, result };
    }
    known = plan.some(callsLibvirt) ? {} : { domain: facts.domain };
  }
}

/** Drops the retry state of steps that succeeded, so that the next unplug or step starts afresh. */
function pruneRetryState(
  { vmi, ifaces, domain, orphanedWirings: orphans }: NodeVmFacts,
  result: NodePlanResult,
  deps: Deps,
): void {
  const unplugging = ifaces.filter(mustReleaseDevice).map(({ name }) => name);
  deps.unplugRequests.retain(vmi.metadata.uid ?? "", unplugging);
  const blockedSteps = Object.keys(result.blockedReasons).flatMap(listStepNames);
  deps.stepBackoff.retain(vmi.metadata.uid ?? "", [
    ...blockedSteps,
    ...listSweepStepNames(orphans),
    ...(domain?.running === true ? [] : [START_STEP]),
    ...ifaces.map(({ name }) => serveStepName(name)),
  ]);
}

function notifyHooks(
  { vmi, domain }: NodeVmFacts,
  { pod, session }: LauncherContext,
  deps: Deps,
): void {
  if (domain?.running === true) deps.guestHooks.started(pod);
  else if (domain !== undefined && hasRun(vmi)) {
    deps.guestHooks.ended({ pod, sidecars: session.launcher.sidecars ?? [] });
  }
}

async function convergeAndReport(
  vmi: VirtualMachineInstance,
  place: LauncherContext,
  deps: Deps,
): Promise<{ readonly facts: NodeVmFacts; readonly next: Next }> {
  const { facts, result } = await converge(vmi, place, deps);
  pruneRetryState(facts, result, deps);
  recordTaps(facts, deps.taps);
  notifyHooks(facts, place, deps);
  const delayMs = await reportNodeVm(facts, result, deps);
  if (result.connectionError !== undefined) throw result.connectionError;
  // Without a guest agent nothing is polled: netlink, libvirt and the API server report every change.
  const dueInMs = [
    result.changed ? 0 : [],
    result.retryInMs ?? [],
    (delayMs > 0 ? delayMs : await queryOwnedGuest(facts, place, deps)) ?? [],
  ].flat();
  return { facts, next: dueInMs.length === 0 ? done() : after(Math.min(...dueInMs)) };
}

/** On a migration target, the guest's owner queries the agent. */
async function queryOwnedGuest(
  facts: NodeVmFacts,
  place: LauncherContext,
  deps: Deps,
): Promise<number | undefined> {
  return place.role === "owner" ? queryGuestAgent(facts, place.session, deps) : undefined;
}

/** libvirt reports a refused unplug only once, and no query shows it afterwards. */
function recordRefusal(
  { metadata }: VirtualMachineInstance,
  event: HypervisorEvent,
  { unplugRequests }: Deps,
): void {
  if (event.kind !== "deviceRemovalFailed") return;
  const iface = nameOfAlias(event.alias);
  if (iface !== undefined) unplugRequests.recordRefusal(metadata.uid ?? "", iface);
}

export function buildListener(vmi: VirtualMachineInstance, deps: Deps, wake: () => void): Listener {
  return {
    wake,
    onEvent: (event) => {
      recordRefusal(vmi, event, deps);
    },
  };
}

async function reconcileWithSession(
  vmi: VirtualMachineInstance,
  place: LauncherContext,
  deps: Deps,
): Promise<Next> {
  const converge = (): ReturnType<typeof convergeAndReport> => convergeAndReport(vmi, place, deps);
  if (deps.migrationRuns.find(vmi) === undefined) return (await converge()).next;
  return reconcileMigration(vmi, place, { deps, converge });
}

export async function reconcileNodeVm(
  key: string,
  deps: Deps,
  wake: (key: string) => void,
): Promise<Next> {
  const vmi = deps.vmis.find(parseKey(key));
  if (vmi === undefined || deps.ownWrites.isBehind(vmi)) return done();
  const launcher = findLauncher(vmi, deps);
  trackLauncher(vmi, launcher, deps);
  if (launcher === undefined) return done();
  const { role, ...pod } = launcher;
  if (PHASES_BEFORE_LAUNCHER.includes(vmi.status?.phase)) return done();
  if (isVmiFinal(vmi)) {
    deps.sessions.close(pod);
    deps.guestHooks.forget(pod);
    await deps.guestServers.stop(pod.uid);
    return done();
  }
  const delayMs = findDelayMs(vmi, pod, deps);
  if (delayMs !== undefined) return after(delayMs);
  const listener = buildListener(vmi, deps, () => {
    wake(key);
  });
  try {
    if (await finishOutgoing(vmi, listener.wake, deps)) return done();
    const next = await deps.sessions.use(pod, listener, (session) =>
      reconcileWithSession(vmi, { pod, role, session, wake: listener.wake }, deps),
    );
    resetFailures(vmi, deps);
    return next;
  } catch (error) {
    return handleFailedPass(vmi, error, deps);
  }
}
