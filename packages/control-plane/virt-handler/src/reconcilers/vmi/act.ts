// SPDX-License-Identifier: Apache-2.0
// Executes a node plan. A failed step of one iface does not block the others.
import { isAppError, isDomainBusy, type AppError } from "@patchbay/base";
import type { BlockedReason } from "@patchbay/core/status";
import type { NodeAction } from "@patchbay/core/vm";
import { earliest, runSteps, type StepsResult } from "@patchbay/kube";
import { reportNodeVm } from "./report.ts";
import {
  type FailedNodeStep,
  type NodeStep,
  isLost,
  type StepContext,
} from "./steps/step-context.ts";
import { buildIfaceStep, isOnDevice } from "./steps/iface-steps.ts";
import { buildServeStep, buildStopServingStep } from "./steps/dhcp-steps.ts";
import { isOnDomain, START_STEP, buildStartStep } from "./steps/start-guest.ts";
import { buildSweepStep } from "./steps/sweep-links.ts";

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
  return isOnDevice(action) || isOnDomain(action);
}

/** Whether further calls on the domain would fail as well: it is busy, so that each would wait as long, or libvirt is lost. */
function stopsDeviceSteps(error: unknown): error is AppError {
  return isLost(error) || isDomainBusy(error);
}

/** A step of an iface depends on the earlier steps of the same iface. */
function dependsOn(step: NodeStep, { action: before }: FailedNodeStep): boolean {
  const [iface, ...others] = step.ifaces;
  return iface !== undefined && others.length === 0 && before.ifaces.includes(iface);
}

/** Runs the steps in order. Once the domain is busy or lost, steps on devices fail with that error without being tried. */
function run(steps: readonly NodeStep[], { deps }: StepContext): Promise<Result> {
  let stop: AppError | undefined;
  const perform = async (step: NodeStep): Promise<void> => {
    if (stop !== undefined && step.isOnDevice) throw stop;
    await step.perform();
  };
  return runSteps<NodeStep, BlockedReason>(steps, perform, {
    backoff: deps.stepBackoff,
    toStep: (step) => step,
    explain: (step, error) => ({
      code: isAppError(error) ? error.code : "UNKNOWN",
      shown: step.explain(error),
    }),
    wait: (step, failed) =>
      failed.some((before) => dependsOn(step, before)) ? "skip" : step.wait?.(),
    report: (failed) => {
      if (stopsDeviceSteps(failed.error)) stop = failed.error;
      failed.action.log(failed);
    },
  });
}

/** Each server starts on its own, so that a slow or failed one does not delay the other NICs. */
function buildServerSteps(plan: readonly NodeAction[], context: StepContext): readonly NodeStep[] {
  return plan.flatMap((action) => {
    if (action.kind === "serveAddresses") return [buildServeStep(action, context)];
    return action.kind === "stopServing" ? [buildStopServingStep(action, context)] : [];
  });
}

/** Serves first, but in parallel with attaching devices, which takes longer: the guest requests an address later, and repeats it. */
async function serveAndPlug(
  plan: readonly NodeAction[],
  context: StepContext,
): Promise<readonly Result[]> {
  const onIfaces = plan.filter((action) => "iface" in action);
  const isPlug = onIfaces.every(({ kind }) => kind === "attachDevice" || kind === "wait");
  const servers = buildServerSteps(plan, context);
  const runIfaces = (): Promise<Result> =>
    run(
      onIfaces.map((action) => buildIfaceStep(action, context)),
      context,
    );
  const serving = Promise.all(servers.map((step) => run([step], context)));
  if (isPlug) {
    const [served, plugged] = await Promise.all([serving, runIfaces()]);
    return [...served, plugged];
  }
  return [...(await serving), await runIfaces()];
}

/** Run last, so that leftovers of ifaces are removed before a guest starts. */
function buildLastSteps(plan: readonly NodeAction[], context: StepContext): readonly NodeStep[] {
  const onDomain = plan.filter(isOnDomain);
  return [
    ...plan.flatMap((action) =>
      action.kind === "sweepLinks" ? [buildSweepStep(action, context)] : [],
    ),
    ...(onDomain.length === 0 ? [] : [buildStartStep(onDomain, context)]),
  ];
}

/** Writes the status first when the plan demands it. Returns false when the write was held back. */
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
  const first = await serveAndPlug(actions, context);
  const last = await run(buildLastSteps(actions, context), context);
  const results = [...first, last];
  const failed = results.flatMap((result) => result.failed);
  const done = results.flatMap((result) => result.done);
  const blockedReasons = failed.flatMap(({ action, shown }) =>
    action.ifaces.map((iface) => [iface, shown] as const),
  );
  return {
    changed: done.length > 0,
    done: new Set(done.map(({ name }) => name)),
    blockedReasons: Object.fromEntries(blockedReasons),
    guest: failed.find(({ action }) => action.name === START_STEP)?.shown,
    retryInMs: earliest(results.map(({ retryInMs: againMs }) => againMs)),
    connectionError: failed.map(({ error }) => error).find(isLost),
  };
}
