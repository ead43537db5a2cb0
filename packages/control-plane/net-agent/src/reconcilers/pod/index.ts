// SPDX-License-Identifier: Apache-2.0
// One pass over one pod: compares its annotation with the journal, and attaches and detaches networks one at a time.
import type { AttachmentError } from "@patchbay/api/annotations";
import type { Deps } from "../../deps.ts";
import { type PodFacts, listUids, observe } from "./observe.ts";
import { toStep, type Action, interfaceNameOf, networkOf } from "./step.ts";
import {
  runSteps,
  type FailedStep,
  type Step,
  after,
  done,
  type EventRecorder,
  type Next,
} from "@patchbay/kube";
import { type ActResult, reportFailed, reportPlanError, report } from "./report.ts";
import { adopt, attach } from "./attachment/attach.ts";
import { detach } from "./attachment/detach.ts";
import { messageOf, findRetryRule } from "@patchbay/base";
import { planAttachmentActions } from "@patchbay/core/nics";

/** Attachment that could not be removed and therefore still uses its interface name. */
interface BlockingAttachment {
  /** Network as NAMESPACE/NAME. */
  readonly network: string;
  readonly message: string;
}

/** Explains why an ADD waits: its last failure, or else that an attachment whose DEL failed still uses the interface name. */
function toNameInUseError(
  action: Extract<Action, { readonly kind: "add" }>,
  {
    facts,
    blockingAttachment,
  }: { readonly facts: PodFacts; readonly blockingAttachment: BlockingAttachment },
  deps: Deps,
): AttachmentError {
  const lastReport = deps.failures.lastReport(toStep(action, facts, deps));
  if (lastReport !== undefined) return lastReport;
  const { network, interfaceName } = action.wanted;
  if (network === blockingAttachment.network)
    return { reason: "CniFailed", message: blockingAttachment.message };
  const message = `${interfaceName} is in use until ${blockingAttachment.network} is detached: ${blockingAttachment.message}`;
  return { reason: "InterfaceNameTaken", message };
}

type Failed = FailedStep<Action, AttachmentError>;

function findBlockingAttachment(
  interfaceName: string,
  failed: readonly Failed[],
): BlockingAttachment | undefined {
  for (const { action, summary } of failed) {
    if (action.kind !== "del" || action.owned.interfaceName !== interfaceName) continue;
    return { network: action.owned.network, message: summary.message };
  }
  return undefined;
}

function handlePlanError(
  { reason, message, interfaceName: about }: Extract<Action, { readonly kind: "reportError" }>,
  { step, facts }: { readonly step: Step; readonly facts: PodFacts },
  deps: Deps,
): AttachmentError {
  const error = { reason, message };
  if (deps.failures.recordIfNew(step, error)) reportPlanError(error, { facts, about }, deps);
  return error;
}

function findWaitReason(
  action: Action,
  { facts, failed }: { readonly facts: PodFacts; readonly failed: readonly Failed[] },
  deps: Deps,
): AttachmentError | undefined {
  if (action.kind === "reportError") {
    return handlePlanError(action, { step: toStep(action, facts, deps), facts }, deps);
  }
  const blockingAttachment =
    action.kind === "add" ? findBlockingAttachment(interfaceNameOf(action), failed) : undefined;
  return action.kind === "add" && blockingAttachment !== undefined
    ? toNameInUseError(action, { facts, blockingAttachment }, deps)
    : undefined;
}

/** Executes the actions. Returns attachment errors instead of throwing them. */
export async function act(
  actions: readonly Action[],
  facts: PodFacts,
  deps: Deps,
): Promise<ActResult> {
  const buildStep = (action: Action): Step => toStep(action, facts, deps);
  deps.failures.retain(
    facts.uid,
    actions.map((action) => buildStep(action).name),
  );
  const { done, failed, retryInMs } = await runSteps<Action, AttachmentError>(
    actions,
    async (action) => {
      await perform(action, facts, deps).finally(() => deps.onProgress?.());
    },
    {
      backoff: deps.failures,
      toStep: buildStep,
      explain: (action, error) =>
        deps.failures.explain(buildStep(action), error, networkOf(action)),
      findWaitReason: (action, failedSteps) => {
        const summary = findWaitReason(action, { facts, failed: failedSteps }, deps);
        return summary && { summary, pauseMs: undefined };
      },
      report: (failedStep) => {
        reportFailed(failedStep, facts, deps);
      },
    },
  );
  return {
    errors: new Map(failed.map(({ action, summary }) => [interfaceNameOf(action), summary])),
    // After an adoption, runs the next pass immediately, because the adopted attachment may have to be detached.
    retryInMs: done.some(({ kind }) => kind === "adopt") ? 0 : retryInMs,
  };
}

/** Builds the result of a pass in which the container runtime is unavailable: an error for each network to attach or detach. */
function blockAll(actions: readonly Action[], error: AttachmentError): ActResult {
  const blocked = actions.filter(({ kind }) => kind === "add" || kind === "del");
  return {
    errors: new Map(blocked.map((action) => [interfaceNameOf(action), error])),
    retryInMs: undefined,
  };
}

async function perform(action: Action, facts: PodFacts, deps: Deps): Promise<void> {
  switch (action.kind) {
    case "add":
      await attach(action.wanted, facts, deps);
      return;
    case "del":
      await detach(action.owned.row, facts, deps);
      return;
    case "adopt":
      await adopt(action.foreign, facts, deps);
      return;
    case "forget":
      await deps.journal.remove(action.owned.row);
      return;
    case "reportError": // Never performed, because `findWaitReason` returns an error for this action.
  }
}

/** Runs one pass over the current pod with the key, and one over each deleted pod of the same name in `trackedPods`. */
export async function reconcilePod(key: string, deps: Deps): Promise<Next> {
  const failures: unknown[] = [];
  const delaysMs: number[] = [];
  for (const uid of listUids(key, deps)) {
    try {
      const retryInMs = await reconcileOne(key, uid, deps);
      if (retryInMs !== undefined) delaysMs.push(retryInMs);
    } catch (error) {
      // A failed pass over a deleted pod must not prevent the pass over the current pod.
      failures.push(error);
    }
  }
  const reportedFailure =
    failures.find((error) => findRetryRule(error) === "backoff") ?? failures[0];
  if (reportedFailure !== undefined) throw toError(reportedFailure);
  return delaysMs.length === 0 ? done() : after(Math.min(...delaysMs));
}

function toError(thrown: unknown): Error {
  return thrown instanceof Error ? thrown : new Error(messageOf(thrown));
}

async function recordEventsLast<T>(
  { events, ...deps }: Deps,
  work: (deps: Deps) => Promise<T>,
): Promise<T> {
  const deferred: (() => void)[] = [];
  const record: EventRecorder["record"] = (object, note) => {
    deferred.push(() => {
      events.record(object, note);
    });
  };
  try {
    return await work({ ...deps, events: { record, flush: () => events.flush() } });
  } finally {
    for (const recordNow of deferred) recordNow();
  }
}

/** Runs a pass over one pod. Returns the milliseconds until the next pass; undefined if no pass is needed until something changes. */
function reconcileOne(key: string, uid: string, allDeps: Deps): Promise<number | undefined> {
  return allDeps.podMutex.runExclusive(uid, () =>
    recordEventsLast(allDeps, (deps) => runPass(key, uid, deps)),
  );
}

/** Interval for checking whether the runtime has detached the default network of a deleted pod, in milliseconds. */
const RUNTIME_DETACH_CHECK_INTERVAL_MS = 60_000;

async function runPass(key: string, uid: string, deps: Deps): Promise<number | undefined> {
  const facts = await observe(key, uid, deps);
  if (facts === undefined) return undefined;
  const plan = planAttachmentActions(facts.attachments);
  if (plan.length > 0) {
    deps.log.debug("plan for pod", { pod: key, plan: plan.map((action) => action.kind) });
  }
  if (facts.runtimeUnavailable !== undefined) {
    await report(facts, blockAll(plan, facts.runtimeUnavailable.report), deps);
    throw facts.runtimeUnavailable.error; // The queue retries the pass.
  }
  const actResult = await act(plan, facts, deps);
  const isHidden = await report(facts, actResult, deps);
  if (facts.missingSandbox?.error !== undefined) throw facts.missingSandbox.error; // The queue retries the pass.
  if (isHidden) return 0;
  if (facts.isAwaitingRuntimeDetach !== true) return actResult.retryInMs;
  return Math.min(
    RUNTIME_DETACH_CHECK_INTERVAL_MS,
    actResult.retryInMs ?? RUNTIME_DETACH_CHECK_INTERVAL_MS,
  );
}
