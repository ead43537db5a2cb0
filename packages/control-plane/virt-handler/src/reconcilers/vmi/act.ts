// SPDX-License-Identifier: Apache-2.0
// Executes the steps of a node plan. Steps are idempotent, and a failed step of one interface does not block other interfaces.
import {
  type BlockedReason,
  blockedReasonOfFailure,
  blockedReasonOfWait,
  reportedUnplugRequests,
} from "@patchbay/core/status";
import { type NodeAction, domainNameOf } from "@patchbay/core/vm";
import { keyOf, printKey, type Step, earliest, runSteps, type StepsResult } from "@patchbay/kube";
import {
  type StepContext,
  type NodeStep,
  performTimed,
  isConnectionLost,
  type FailedNodeStep,
} from "./steps/step-context.ts";
import { toAlias, findByName, findIpv6Gateway } from "@patchbay/core/nics";
import { isAppError, type ErrorCode, isDomainBusy, type AppError } from "@patchbay/base";
import { LINKS_KEEP_CHANGING } from "@patchbay/core/reasons";
import { DISK_RETRY_REFILL_MS, WIRING_REFILL_MS } from "../../rate-limits.ts";
import { reportNodeVm } from "./report.ts";
import { isDomainAction, START_STEP, buildStartStep } from "./steps/start-guest.ts";

type SweepAction = Extract<NodeAction, { kind: "sweepLinks" }>;

const SWEEP_STEP = "sweepLinks";

const UNREPORTED_REASON: BlockedReason = { reason: "UnwiringFailed", message: "", attempts: 0 };

type Wiring = SweepAction["wiring"];

function stepName({ podInterfaceName }: Wiring): string {
  return `${SWEEP_STEP} ${podInterfaceName}`;
}

export function listSweepStepNames(orphans: readonly Wiring[] = []): readonly string[] {
  return orphans.map(stepName);
}

function buildSweepStep(action: SweepAction, { facts, session, deps }: StepContext): NodeStep {
  const logFields = { vmi: printKey(keyOf(facts.vmi)), link: action.wiring.podInterfaceName };
  return {
    scope: facts.vmi.metadata.uid ?? "",
    name: stepName(action.wiring),
    inputs: "",
    ifaces: [],
    isDeviceStep: false,
    perform: async () => {
      await deps.podNetwork.unwireTap(session.launcher.netns, action.wiring);
      deps.log.warn("removed links that belong to no iface", logFields);
    },
    explain: () => UNREPORTED_REASON,
    log: ({ error: err }) => {
      deps.log.warn("failed to remove links that belong to no iface", { ...logFields, err });
    },
  };
}

type DiskRetry = Extract<NodeAction, { kind: "retryDisk" }>;

/** Builds the step that repeats a failed disk request, which succeeds when the node's disk has space again. Source: KubeVirt SyncVMI. */
function buildDiskRetryStep(action: DiskRetry, context: StepContext): NodeStep {
  const { facts, session, deps } = context;
  const { vmi } = facts;
  const { uid = "" } = vmi.metadata;
  return {
    scope: uid,
    name: action.kind,
    inputs: "",
    ifaces: [],
    isDeviceStep: false,
    perform: () =>
      performTimed(action, context, async () => {
        // A user may have paused the guest after it was observed.
        if (deps.pauseRequests.get(uid) !== true)
          await session.connection.resumeDomain(domainNameOf(vmi));
      }),
    explain: () => UNREPORTED_REASON,
    log: ({ error: err }) => {
      const fields = { vmi: printKey(keyOf(vmi)), err };
      deps.log.warn("failed to resume the guest after a disk error", fields);
    },
    findWaitReason: () =>
      deps.diskRetryBudget.take(vmi)
        ? undefined
        : { summary: UNREPORTED_REASON, pauseMs: DISK_RETRY_REFILL_MS },
  };
}

export function serveStepName(iface: string): string {
  return `serveAddresses ${iface}`;
}

/** Builds the step that starts a NIC's DHCP server. If the step fails, only that NIC reports the failure. */
function buildServeStep(
  action: Extract<NodeAction, { kind: "serveAddresses" }>,
  context: StepContext,
): NodeStep {
  const { facts, pod, session, wake, deps } = context;
  const { iface } = action.nic;
  const request = { netns: session.launcher.netns, nic: action.nic, onEnd: wake };
  return {
    scope: facts.vmi.metadata.uid ?? "",
    name: serveStepName(iface),
    inputs: JSON.stringify(action),
    ifaces: [iface],
    isDeviceStep: false,
    perform: () => performTimed(action, context, () => deps.guestServers.serve(pod.uid, request)),
    explain: (error) => blockedReasonOfFailure("serveAddresses", error, undefined),
    log: ({ pauseMs: retryMs, error: err }) => {
      const vmi = printKey(keyOf(facts.vmi));
      deps.log.warn("failed to start the DHCP server of a NIC", { vmi, iface, retryMs, err });
    },
  };
}

function buildStopServingStep(
  action: Extract<NodeAction, { kind: "stopServing" }>,
  context: StepContext,
): NodeStep {
  const { facts, pod, deps } = context;
  const { bridgeName } = action;
  return {
    scope: facts.vmi.metadata.uid ?? "",
    name: `stopServing ${bridgeName}`,
    inputs: "",
    ifaces: [],
    isDeviceStep: false,
    perform: () =>
      performTimed(action, context, () => deps.guestServers.stopOnBridge(pod.uid, bridgeName)),
    explain: (error) => blockedReasonOfFailure("serveAddresses", error, undefined),
    log: ({ error: err }) => {
      deps.log.warn("failed to stop the DHCP server of a NIC", { link: bridgeName, err });
    },
  };
}

type SwapAction = Extract<NodeAction, { kind: "swapNetwork" }>;

/** Minimum time for which the link is down, in milliseconds. The guest must notice the loss of the link to request a new address. */
const LINK_DOWN_MIN_MS = 50;
/** Signal for a wait that is too short to cancel. */
const NEVER_ABORTED = new AbortController().signal;

/** Restores the old network. Steps that fail are only logged, because the next pass repairs remaining differences. */
async function restoreNetwork(
  action: SwapAction,
  setLink: SetLink,
  context: StepContext,
): Promise<void> {
  const { podNetwork, log } = context.deps;
  const steps = [
    () => podNetwork.wireTap(context.session.launcher.netns, action.from),
    () => setLink("up"),
  ];
  for (const step of steps) {
    try {
      await step();
    } catch (error) {
      log.warn("failed to restore the network of a NIC", { iface: action.iface, err: error });
    }
  }
}

type SetLink = (state: "up" | "down") => Promise<void>;

function createLinkSetter({ link }: SwapAction, { facts, session }: StepContext): SetLink {
  return async (state) => {
    if (link === undefined) return;
    await session.connection.updateDevice(domainNameOf(facts.vmi), link[state], "live");
  };
}

/** Moves the tap to the new network. Returns when the link has been down long enough for the guest to notice. */
async function moveTap(action: SwapAction, { session, deps }: StepContext): Promise<void> {
  const startedMs = deps.clock.monotonicMs();
  await deps.podNetwork.wireTap(session.launcher.netns, action.to);
  const remainingMs = LINK_DOWN_MIN_MS - (deps.clock.monotonicMs() - startedMs);
  if (action.link !== undefined && remainingMs > 0)
    await deps.clock.sleep(remainingMs, NEVER_ABORTED);
}

/** Swaps the network of a NIC. Restores the old network if the tap cannot be moved. @throws AppError of the failed step */
async function swapNetwork(action: SwapAction, context: StepContext): Promise<void> {
  const { session, deps, facts } = context;
  const setLink = createLinkSetter(action, context);
  await deps.podNetwork.makeBridge(session.launcher.netns, action.to);
  const startedMs = deps.clock.monotonicMs();
  try {
    await setLink("down");
    await moveTap(action, context);
  } catch (error) {
    await restoreNetwork(action, setLink, context);
    throw error;
  }
  await setLink("up");
  deps.log.info("swapped the network of a NIC", {
    vmi: printKey(keyOf(facts.vmi)),
    iface: action.iface,
    linkDownMs: Math.round(deps.clock.monotonicMs() - startedMs),
  });
}

type IfaceAction = Extract<NodeAction, { iface: string }>;
type EffectiveAction = Exclude<IfaceAction, { kind: "wait" }>;

const EFFECTIVE_KINDS: readonly EffectiveAction["kind"][] = [
  "rememberAddresses",
  "linkSocket",
  "wireTap",
  "applyPolicy",
  "attachDevice",
  "detachDevice",
  "unwireTap",
  "setLink",
  "swapNetwork",
  "removeBridge",
];

export function listStepNames(iface: string): readonly string[] {
  return EFFECTIVE_KINDS.map((kind) => `${kind} ${iface}`);
}

async function ignoreErrors(call: Promise<void>, ...codes: readonly ErrorCode[]): Promise<void> {
  try {
    await call;
  } catch (error) {
    if (!codes.some((code) => isAppError(error, code))) throw error;
  }
}

/**
 * Adds the device to the domain's definition and to the running guest. If the definition or the guest already has the device, replaces
 * the device in the definition, and adds it to the guest only if the guest lacks it.
 */
async function attach(alias: string, xml: string, { facts, session }: StepContext): Promise<void> {
  const { connection } = session;
  const name = domainNameOf(facts.vmi);
  try {
    await connection.attachDevice(name, xml, "both");
    return;
  } catch (error) {
    if (!isAppError(error, "LIBVIRT_DEVICE_EXISTS")) throw error;
  }
  await ignoreErrors(connection.detachDevice(name, alias, "config"), "LIBVIRT_DEVICE_MISSING");
  await connection.attachDevice(name, xml, "config");
  await ignoreErrors(connection.attachDevice(name, xml, "live"), "LIBVIRT_DEVICE_EXISTS");
}

async function detach(
  iface: string,
  alias: string,
  { facts, session, deps }: StepContext,
): Promise<void> {
  const { connection } = session;
  const name = domainNameOf(facts.vmi);
  await ignoreErrors(connection.detachDevice(name, alias, "config"), "LIBVIRT_DEVICE_MISSING");
  const previousRequests = reportedUnplugRequests(findByName(facts.ifaces, iface)?.reported);
  const undoRecord = deps.unplugRequests.record(
    facts.vmi.metadata.uid ?? "",
    iface,
    previousRequests,
  );
  try {
    const liveDetach = connection.detachDevice(name, alias, "live");
    // These errors mean that the device is already removed, or that an earlier request is pending in the guest.
    await ignoreErrors(liveDetach, "LIBVIRT_DEVICE_MISSING", "LIBVIRT_UNPLUG_PENDING");
  } catch (error) {
    // After a lost connection, the request stays recorded, because the guest may have received it.
    if (!isConnectionLost(error)) undoRecord();
    throw error;
  }
}

/** Stores the pod NIC's addresses on disk. Must run before `wireTap`, which removes the addresses from the NIC. */
async function storeAddresses(
  podInterfaceName: string,
  { pod, session, deps }: StepContext,
): Promise<void> {
  const row = await deps.podNetwork.readAddresses(session.launcher.netns, podInterfaceName);
  if (findIpv6Gateway(row) !== undefined && row.gatewayMac === undefined) {
    deps.log.warn("cannot answer for the IPv6 gateway, because its MAC is unknown", {
      link: podInterfaceName,
    });
  }
  await deps.addressStore.write(pod.uid, row);
}

async function perform(action: EffectiveAction, context: StepContext): Promise<void> {
  const { facts, session, deps } = context;
  const { netns } = session.launcher;
  switch (action.kind) {
    case "rememberAddresses":
      await storeAddresses(action.podInterfaceName, context);
      return;
    case "linkSocket":
      deps.vhostSockets.link(context.pod.uid, action.socket);
      return;
    case "wireTap":
      await deps.podNetwork.wireTap(netns, action.wiring);
      return;
    case "applyPolicy":
      await deps.podNetwork.applyPolicy(netns, action.wiring);
      return;
    case "unwireTap":
      await deps.podNetwork.unwireTap(netns, action.wiring);
      return;
    case "attachDevice":
      await attach(toAlias(action.iface), action.xml, context);
      return;
    case "detachDevice":
      await detach(action.iface, action.alias, context);
      return;
    case "swapNetwork":
      await swapNetwork(action, context);
      return;
    case "removeBridge":
      await deps.podNetwork.removeBridge(netns, action.bridgeName);
      return;
    case "setLink":
      await session.connection.updateDevice(domainNameOf(facts.vmi), action.xml, "live");
  }
}

const DEVICE_ACTIONS: readonly NodeAction["kind"][] = [
  "attachDevice",
  "detachDevice",
  "setLink",
  "swapNetwork",
];

function isDeviceAction({ kind }: NodeAction): boolean {
  return DEVICE_ACTIONS.includes(kind);
}

type StepWait = ReturnType<NonNullable<NodeStep["findWaitReason"]>>;

function limitRepairs(action: EffectiveAction, step: Step, { facts, deps }: StepContext): StepWait {
  if (action.kind !== "wireTap" || deps.stepBackoff.findDelay(step) !== undefined) return undefined;
  if (deps.wiringBudget.take(facts.vmi, action.iface)) return undefined;
  return { summary: { ...LINKS_KEEP_CHANGING, attempts: 0 }, pauseMs: WIRING_REFILL_MS };
}

function buildWaitingStep(
  action: Extract<IfaceAction, { kind: "wait" }>,
  { facts }: StepContext,
): NodeStep {
  const summary = blockedReasonOfWait(action, facts);
  return {
    scope: facts.vmi.metadata.uid ?? "",
    name: `wait ${action.iface}`,
    inputs: "",
    ifaces: [action.iface],
    isDeviceStep: false,
    perform: () => Promise.resolve(),
    explain: () => summary,
    log: () => undefined,
    findWaitReason: () => ({ summary, pauseMs: action.forMs }),
  };
}

export function stepNameOf({ kind, iface }: Pick<IfaceAction, "kind" | "iface">): string {
  return `${kind} ${iface}`;
}

/** Builds the step of an action. A change of the guest's NICs resets the step's backoff, because it may have freed a PCIe port. */
function buildIfaceStep(action: IfaceAction, context: StepContext): NodeStep {
  if (action.kind === "wait") return buildWaitingStep(action, context);
  const { facts, deps } = context;
  const { kind, iface } = action;
  const nics = facts.domain?.facts.nics.map(({ alias }) => alias) ?? [];
  const step: Step = {
    scope: facts.vmi.metadata.uid ?? "",
    name: stepNameOf(action),
    inputs: JSON.stringify([action, nics]),
  };
  const reported = findByName(facts.ifaces, iface)?.reported;
  return {
    ...step,
    ifaces: [iface],
    isDeviceStep: isDeviceAction(action),
    perform: () => performTimed(action, context, () => perform(action, context)),
    explain: (error) => blockedReasonOfFailure(kind, error, reported),
    log: ({ summary: { attempts: attempt }, error: err }) => {
      // A lost connection is not logged here, but once for the whole pass.
      if (!isConnectionLost(err))
        deps.log.warn("step failed", { action: kind, iface, attempt, err });
    },
    findWaitReason: () => limitRepairs(action, step, context),
  };
}

export interface NodePlanResult {
  readonly changed: boolean;
  readonly done: ReadonlySet<string>;
  readonly blockedReasons: Readonly<Record<string, BlockedReason>>;
  readonly guest: BlockedReason | undefined;
  readonly retryInMs: number | undefined;
  readonly connectionError: AppError | undefined;
}

type Result = StepsResult<NodeStep, BlockedReason>;

export function callsLibvirt(action: NodeAction): boolean {
  return isDeviceAction(action) || isDomainAction(action) || action.kind === "retryDisk";
}

/** Returns whether further libvirt calls would fail, because the domain is busy or the connection to libvirt is lost. */
function stopsDeviceSteps(error: unknown): error is AppError {
  return isConnectionLost(error) || isDomainBusy(error);
}

/** Returns whether the step concerns only one interface, which the failed step `before` also concerned. */
function dependsOn(step: NodeStep, { action: before }: FailedNodeStep): boolean {
  const [iface, ...others] = step.ifaces;
  return iface !== undefined && others.length === 0 && before.ifaces.includes(iface);
}

/** Runs the steps in order. Once a step fails because the connection is lost or the domain is busy, later device steps fail at once. */
function run(steps: readonly NodeStep[], { deps }: StepContext): Promise<Result> {
  let stopError: AppError | undefined;
  const perform = async (step: NodeStep): Promise<void> => {
    if (stopError !== undefined && step.isDeviceStep) throw stopError;
    await step.perform();
  };
  return runSteps<NodeStep, BlockedReason>(steps, perform, {
    backoff: deps.stepBackoff,
    toStep: (step) => step,
    explain: (step, error) => ({
      code: isAppError(error) ? error.code : "UNKNOWN",
      summary: step.explain(error),
    }),
    findWaitReason: (step, failed) =>
      failed.some((before) => dependsOn(step, before)) ? "skip" : step.findWaitReason?.(),
    report: (failed) => {
      if (stopsDeviceSteps(failed.error)) stopError = failed.error;
      failed.action.log(failed);
    },
  });
}

function buildServerSteps(plan: readonly NodeAction[], context: StepContext): readonly NodeStep[] {
  return plan.flatMap((action) => {
    if (action.kind === "serveAddresses") return [buildServeStep(action, context)];
    return action.kind === "stopServing" ? [buildStopServingStep(action, context)] : [];
  });
}

/**
 * Runs the DHCP server steps before the interface steps. If the interface steps are only plugs and waits, runs both concurrently,
 * because a guest requests an address only after its NIC is plugged.
 */
async function serveAndPlug(
  plan: readonly NodeAction[],
  context: StepContext,
): Promise<readonly Result[]> {
  const ifaceActions = plan.filter((action) => "iface" in action);
  const isPlug = ifaceActions.every(({ kind }) => kind === "attachDevice" || kind === "wait");
  const serverSteps = buildServerSteps(plan, context);
  const runIfaces = (): Promise<Result> =>
    run(
      ifaceActions.map((action) => buildIfaceStep(action, context)),
      context,
    );
  const serverResults = Promise.all(serverSteps.map((step) => run([step], context)));
  if (isPlug) {
    const [served, plugged] = await Promise.all([serverResults, runIfaces()]);
    return [...served, plugged];
  }
  return [...(await serverResults), await runIfaces()];
}

/** Builds the steps that remove leftover links, and then those that start or resume the guest. */
function buildLastSteps(plan: readonly NodeAction[], context: StepContext): readonly NodeStep[] {
  const domainActions = plan.filter(isDomainAction);
  return [
    ...plan.flatMap((action) => {
      if (action.kind === "sweepLinks") return [buildSweepStep(action, context)];
      return action.kind === "retryDisk" ? [buildDiskRetryStep(action, context)] : [];
    }),
    ...(domainActions.length === 0 ? [] : [buildStartStep(domainActions, context)]),
  ];
}

/** Writes the status if the plan requires a report before other steps. Returns false if the write was delayed. */
async function reportFirst(
  plan: readonly NodeAction[],
  { facts, deps }: StepContext,
): Promise<boolean> {
  if (!plan.some(({ kind }) => kind === "report")) return true;
  return (await reportNodeVm(facts, { blockedReasons: {} }, deps)) === 0;
}

export async function actNodeVm(
  plan: readonly NodeAction[],
  context: StepContext,
): Promise<NodePlanResult> {
  const actions = (await reportFirst(plan, context)) ? plan : [];
  const ifaceResults = await serveAndPlug(actions, context);
  const lastResult = await run(buildLastSteps(actions, context), context);
  const results = [...ifaceResults, lastResult];
  const failed = results.flatMap((result) => result.failed);
  const done = results.flatMap((result) => result.done);
  const blockedReasons = failed.flatMap(({ action, summary }) =>
    action.ifaces.map((iface) => [iface, summary] as const),
  );
  return {
    changed: done.length > 0,
    done: new Set(done.map(({ name }) => name)),
    blockedReasons: Object.fromEntries(blockedReasons),
    guest: failed.find(({ action }) => action.name === START_STEP)?.summary,
    retryInMs: earliest(results.map(({ retryInMs }) => retryInMs)),
    connectionError: failed.map(({ error }) => error).find(isConnectionLost),
  };
}
