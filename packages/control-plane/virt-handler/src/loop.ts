// SPDX-License-Identifier: Apache-2.0
// The reconcile loop over the VMIs of one node. Each pass observes a VMI, and plugs and unplugs its devices.
import { type VirtualMachineInstance, isVmiFinal } from "@patchbay/api";
import type {
  LauncherPod,
  AddressServers,
  Change,
  FrameWatch,
  HookSidecars,
  Launchers,
  LinkCounters,
  LinkWatch,
  PacketCaptures,
} from "@patchbay/core/interfaces";
import type { Deps, NodeParts } from "./deps.ts";
import { forgetVmi, createMemory } from "./memory.ts";
import { isAppError, type AppError } from "@patchbay/base";
import {
  findDrift,
  planNodeVm,
  type Drift,
  type NodeAction,
  type NodeVmFacts,
} from "@patchbay/core/vm";
import { hasRun } from "@patchbay/core/node";
import { listListenedNics } from "@patchbay/core/guest";
import { mustReleaseDevice, listStages } from "@patchbay/core/nics";
import {
  done,
  keyOf,
  printKey,
  type Next,
  after,
  parseKey,
  createMutationCache,
  createQueue,
  runReconciler,
  type LoopWatch,
  type LostWriteReporter,
  type ReconcileMetrics,
} from "@patchbay/kube";
import { PASS_REFILL_MS, serializeInputs } from "./rate-limits.ts";
import { reportFailure, reportNodeVm, announceDrift } from "./reconcilers/vmi/report.ts";
import { recordTaps, measurePlugs, type PlugMetrics } from "./metrics/plugs.ts";
import { reconcileMigration, finishOutgoing } from "./migration/index.ts";
import {
  actNodeVm,
  callsLibvirt,
  type NodePlanResult,
  stepNameOf,
  listStepNames,
  serveStepName,
  listSweepStepNames,
} from "./reconcilers/vmi/act.ts";
import { buildListener, findLauncher } from "./server/find-guest.ts";
import { queryGuestAgent } from "./reconcilers/vmi/guest-agent.ts";
import { observeNodeVm, type KnownFacts } from "./reconcilers/vmi/observe.ts";
import { START_STEP } from "./reconcilers/vmi/steps/start-guest.ts";
import type { LauncherContext } from "./reconcilers/vmi/steps/step-context.ts";
import type { MetricFamily } from "@patchbay/core/metrics";
import { createExamineGuest, type ExamineGuest, type NodeDoctor } from "./server/guest-doctor.ts";
import { createRequestGuest, type RequestGuest } from "./server/guest-requests.ts";
import { createOpenCapture, type OpenCapture } from "./server/guest-captures.ts";
import {
  createOpenGuestStream,
  type ConnectToPod,
  type OpenGuestStream,
} from "./server/guest-streams.ts";
import { NO_POLICIES, type Policies } from "./policies.ts";
import { createPolicyPass } from "./policy-pass.ts";
import { createGuestServers } from "./addresses/guest-servers.ts";
import { createLearnedAddresses } from "./addresses/learned-addresses.ts";
import { createGuestHooks } from "./hooks/guest-hooks.ts";
import { createMigrationRuns } from "./migration/migration-runs.ts";
import { createMigrationMetrics } from "./migration/outgoing.ts";
import { withBackoff } from "./sessions/backoff.ts";
import { createSessions } from "./sessions/sessions.ts";
import { createTrafficSource } from "./metrics/traffic.ts";

function releasePod(pod: LauncherPod, deps: Deps): void {
  const { sessions, guestHooks, guestServers, addressStore, log } = deps;
  sessions.close(pod);
  guestHooks.forget(pod);
  const cleanup = Promise.all([guestServers.stop(pod.uid), addressStore.forgetPod(pod.uid)]);
  cleanup.catch((err: unknown) => {
    log.warn("failed to remove the state of a pod", { uid: pod.uid, err });
  });
}

/** Records the VMI's current launcher on this node, and releases the resources of a previous launcher. */
function trackLauncher(
  { metadata }: VirtualMachineInstance,
  launcher: LauncherPod | undefined,
  deps: Deps,
): void {
  const { uid = "" } = metadata;
  const previous = deps.knownLaunchers.get(uid);
  if (previous !== undefined && previous.uid !== launcher?.uid) {
    releasePod(previous, deps);
    deps.knownLaunchers.delete(uid);
    deps.migrationRuns.forget(uid);
    deps.learnedAddresses.forget(uid);
  }
  if (launcher !== undefined) deps.knownLaunchers.set(uid, launcher);
}

function releaseVmi(vmi: VirtualMachineInstance, deps: Deps): void {
  trackLauncher(vmi, undefined, deps);
  const { uid = "" } = vmi.metadata;
  deps.migrationRuns.forget(uid);
  forgetVmi(uid, deps);
}

/** Pattern of error codes that concern only one launcher. */
const LAUNCHER_ERRORS = /^(?:LAUNCHER|CRI|LIBVIRT|DOMAIN|PODNET|OS)_/;

function isLauncherError(error: unknown): error is AppError {
  return isAppError(error) && LAUNCHER_ERRORS.test(error.code);
}

/** Returns the delay before the next pass, in milliseconds. If a pass may run now, takes it from the VMI's budget and returns undefined. */
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

/** Reports a launcher error in the VMI's status. Rethrows every error except LAUNCHER_UNREACHABLE, so that the queue backs off. */
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
  // No retry is needed, because a watch on the launcher's socket wakes the loop.
  deps.log.debug("launcher is not reachable", { vmi: printKey(keyOf(vmi)), reason: error.message });
  return done();
}

/**
 * Phases in which the launcher's volume is possibly not mounted yet. A watch that starts before the mount would watch the directory that
 * the mount later covers, and would never report the launcher's socket.
 */
const PHASES_BEFORE_LAUNCHER: readonly (string | undefined)[] = ["Pending", "Scheduling"];
/** Maximum number of rounds in a pass. Each round observes and acts; a plug takes about four rounds. */
const ROUNDS_MAX = 5;

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
  launcher: LauncherContext,
  deps: Deps,
): Promise<{ facts: NodeVmFacts; result: NodePlanResult }> {
  let known: KnownFacts = {};
  const drifts: Drift[] = [];
  for (let round = 1; ; round += 1) {
    const facts = await observeNodeVm(vmi, { ...launcher, ...known }, deps);
    const plan = planNodeVm(facts);
    // Only the launcher that owns the guest records phases. When a migration target becomes the owner, it continues from the phases in
    // the VMI's status.
    if (launcher.role === "owner") {
      deps.phaseTimings.observe(vmi, listStages(facts.ifaces, vmi.metadata.namespace ?? ""));
    }
    const result = await actNodeVm(plan, { ...launcher, facts, deps });
    drifts.push(...findRepairedDrifts(plan, facts, result));
    if (!result.changed || result.connectionError !== undefined || round === ROUNDS_MAX) {
      for (const drift of selectReportableDrifts(drifts, facts, result))
        announceDrift(vmi, drift, deps);
      return { facts, result };
    }
    known = plan.some(callsLibvirt) ? {} : { domain: facts.domain };
  }
}

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
  if (domain?.running === true) deps.guestHooks.onGuestStart(pod);
  else if (domain !== undefined && hasRun(vmi)) {
    deps.guestHooks.onGuestEnd({ pod, sidecars: session.launcher.sidecars ?? [] });
  }
}

/** Learns addresses while this node owns the running guest. Returns the milliseconds until an address is removed. */
function learnAddresses(
  { vmi, ifaces, domain }: NodeVmFacts,
  { role, session, wake }: LauncherContext,
  { learnedAddresses }: Deps,
): number | undefined {
  if (role !== "owner") return undefined;
  const nics = domain?.running === true ? listListenedNics(ifaces) : [];
  const { launcher, ended: signal } = session;
  learnedAddresses.listen(vmi, nics, { netns: launcher.netns, signal, onChange: wake });
  return learnedAddresses.nextEndInMs(vmi.metadata.uid ?? "");
}

async function convergeAndReport(
  vmi: VirtualMachineInstance,
  launcher: LauncherContext,
  deps: Deps,
): Promise<{ readonly facts: NodeVmFacts; readonly next: Next }> {
  const { facts, result } = await converge(vmi, launcher, deps);
  pruneRetryState(facts, result, deps);
  recordTaps(facts, deps.taps);
  notifyHooks(facts, launcher, deps);
  const nextEndInMs = learnAddresses(facts, launcher, deps);
  const delayMs = await reportNodeVm(facts, result, deps);
  if (result.connectionError !== undefined) throw result.connectionError;
  // Polls only the guest agent, because netlink, libvirt and the API server report all other changes.
  const dueInMs = [
    result.changed ? 0 : [],
    result.retryInMs ?? [],
    nextEndInMs ?? [],
    (delayMs > 0 ? delayMs : await queryOwnedGuest(facts, launcher, deps)) ?? [],
  ].flat();
  return { facts, next: dueInMs.length === 0 ? done() : after(Math.min(...dueInMs)) };
}

async function queryOwnedGuest(
  facts: NodeVmFacts,
  launcher: LauncherContext,
  deps: Deps,
): Promise<number | undefined> {
  return launcher.role === "owner" ? queryGuestAgent(facts, launcher.session, deps) : undefined;
}

async function reconcileWithSession(
  vmi: VirtualMachineInstance,
  launcher: LauncherContext,
  deps: Deps,
): Promise<Next> {
  const converge = (): ReturnType<typeof convergeAndReport> =>
    convergeAndReport(vmi, launcher, deps);
  if (deps.migrationRuns.find(vmi) === undefined) return (await converge()).next;
  return reconcileMigration(vmi, launcher, { deps, converge });
}

export async function reconcileNodeVm(
  key: string,
  deps: Deps,
  wake: (key: string) => void,
): Promise<Next> {
  const vmi = deps.vmis.find(parseKey(key));
  if (vmi === undefined || deps.mutationCache.isBehind(vmi)) return done();
  const launcher = findLauncher(vmi, deps);
  trackLauncher(vmi, launcher, deps);
  if (launcher === undefined) return done();
  const { role, ...pod } = launcher;
  if (PHASES_BEFORE_LAUNCHER.includes(vmi.status?.phase)) return done();
  if (isVmiFinal(vmi)) {
    deps.sessions.close(pod);
    deps.guestHooks.forget(pod);
    deps.learnedAddresses.forget(vmi.metadata.uid ?? "");
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

interface LoopMetrics extends ReconcileMetrics, PlugMetrics {
  addSource(read: () => Promise<readonly MetricFamily[]>): void;
}

export interface GuestAccess {
  readonly request: RequestGuest;
  readonly createOpenStream: (connect: ConnectToPod) => OpenGuestStream;
  readonly createCapture: (captures: PacketCaptures) => OpenCapture;
  readonly createExamine: (doctor: NodeDoctor) => ExamineGuest;
}

interface LoopParts extends Omit<NodeParts, "policies"> {
  /** Unset if network policies do not apply to this node's VMs. */
  readonly policies?: Policies;
  readonly launchers: Launchers;
  readonly linkWatch: LinkWatch;
  readonly frameWatch: FrameWatch;
  readonly addressServers: AddressServers;
  readonly hooks: HookSidecars;
  readonly linkCounters: LinkCounters;
  readonly metrics: LoopMetrics;
  readonly watch?: LoopWatch;
  readonly concurrency: number;
  readonly onGuestAccess?: (access: GuestAccess) => void;
}

function buildDeps(parts: LoopParts): Deps {
  const { launchers, hypervisor, linkWatch, vhostSockets, clock, log } = parts;
  return {
    ...parts,
    policies: parts.policies ?? NO_POLICIES,
    sessions: withBackoff(
      createSessions({ launchers, hypervisor, linkWatch, vhostSockets, log }),
      clock,
    ),
    guestServers: createGuestServers(parts),
    learnedAddresses: createLearnedAddresses(parts),
    guestHooks: createGuestHooks(parts),
    ...createMemory(clock),
    mutationCache: createMutationCache(parts.vmis),
    migrationRuns: createMigrationRuns(),
    knownLaunchers: new Map(),
  };
}

function listActivePodUids(vmis: readonly VirtualMachineInstance[]): ReadonlySet<string> {
  return new Set(vmis.flatMap(({ status }) => Object.keys(status?.activePods ?? {})));
}

const POLICIES = "policies";

/** Wakes VMIs when their network policies change. One pass serves all changes that arrive during the previous pass. */
async function runPolicyPasses(
  parts: LoopParts,
  wake: (key: string) => void,
  signal: AbortSignal,
): Promise<void> {
  const { clock, log, metrics, policies } = parts;
  if (policies === undefined) return;
  const queue = createQueue({ clock });
  policies.onChange(() => {
    queue.add(POLICIES);
  });
  const reconcile = createPolicyPass({ ...parts, policies }, wake);
  await runReconciler({ clock, log, metrics, name: POLICIES, queue, reconcile }, signal);
}

/** Runs the loop until the signal is aborted, and then closes all sessions. */
export async function runLoop(parts: LoopParts, signal: AbortSignal): Promise<void> {
  const { clock, concurrency, metrics, vmis } = parts;
  const deps = buildDeps(parts);
  const plugMetrics = measurePlugs(vmis, metrics, clock);
  metrics.addSource(() => Promise.resolve(plugMetrics.families()));
  metrics.addSource(createTrafficSource(parts.linkCounters, deps));
  metrics.addSource(createMigrationMetrics(deps));
  const readInputs = (key: string): string => serializeInputs(vmis.find(parseKey(key)));
  await deps.addressStore.retainPods(listActivePodUids(vmis.list()));
  const queue = createQueue({ clock, concurrency, readInputs });
  const wake = (key: string): void => {
    queue.add(key);
  };
  for (const vmi of vmis.list()) wake(printKey(keyOf(vmi)));
  const unsubscribe = vmis.onChange((change: Change<VirtualMachineInstance>) => {
    if (change.kind === "deleted") releaseVmi(change.previous, deps);
    else wake(printKey(keyOf(change.current)));
  });
  const reconcile = (key: string): ReturnType<typeof reconcileNodeVm> =>
    reconcileNodeVm(key, deps, wake);
  parts.onGuestAccess?.({
    request: createRequestGuest({ ...deps, linkCounters: parts.linkCounters }, wake),
    createOpenStream: (connect) => createOpenGuestStream(deps, connect, wake),
    createCapture: (captures) => createOpenCapture(deps, captures, wake),
    createExamine: (doctor) => createExamineGuest(deps, doctor, wake),
  });
  const lostWrites: LostWriteReporter = {
    events: parts.events,
    find: (_resource, key) => vmis.find(key),
  };
  await Promise.all([
    runReconciler({ ...parts, name: "vmi", queue, reconcile, lostWrites }, signal),
    runPolicyPasses(parts, wake, signal),
  ]);
  unsubscribe();
  plugMetrics.stop();
  deps.migrationRuns.forgetAll();
  deps.learnedAddresses.forgetAll();
  deps.sessions.closeAll();
  await deps.guestServers.stopAll();
}
