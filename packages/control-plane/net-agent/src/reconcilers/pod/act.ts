// SPDX-License-Identifier: Apache-2.0
// Executes a plan, one CNI operation after the other. A failed attachment does not block the others.
import type { AttachmentError } from "@patchbay/api";
import type { Deps } from "../../deps.ts";
import type { PodFacts } from "./observe.ts";
import { toStep, type Action, interfaceNameOf, networkOf } from "./step.ts";
import { runSteps, type FailedStep, type Step } from "@patchbay/kube";
import { adopt } from "./attachment/adopt.ts";
import { attach } from "./attachment/attach.ts";
import { detach } from "./attachment/detach.ts";
import { reportFailed, reportPlanError } from "./events.ts";

/** An attachment that could not be removed. Its journal row is needed for the next attempt, so its interface name stays in use. */
interface Holder {
  /** NAMESPACE/NAME of its network. */
  readonly network: string;
  readonly message: string;
}

/** Reports the attachment's own last failure, but never that of another network. */
function toNameInUseError(
  action: Extract<Action, { readonly kind: "add" }>,
  { facts, holder }: { readonly facts: PodFacts; readonly holder: Holder },
  deps: Deps,
): AttachmentError {
  const lastReport = deps.failures.lastReport(toStep(action, facts, deps));
  if (lastReport !== undefined) return lastReport;
  const { network, interfaceName } = action.wanted;
  if (network === holder.network) return { reason: "CniFailed", message: holder.message };
  const message = `${interfaceName} is in use until ${holder.network} is detached: ${holder.message}`;
  return { reason: "InterfaceNameTaken", message };
}

export interface ActResult {
  /** By NIC in the pod, including steps that back off. */
  readonly errors: ReadonlyMap<string, AttachmentError>;
  /** Milliseconds until the first failed step may be retried; undefined without a failure. */
  readonly retryInMs: number | undefined;
}

type Failed = FailedStep<Action, AttachmentError>;

function findHolder(interfaceName: string, failed: readonly Failed[]): Holder | undefined {
  for (const { action, shown } of failed) {
    if (action.kind !== "del" || action.owned.interfaceName !== interfaceName) continue;
    return { network: action.owned.network, message: shown.message };
  }
  return undefined;
}

function handlePlanError(
  { reason, message, interfaceName: about }: Extract<Action, { readonly kind: "reportError" }>,
  { step, facts }: { readonly step: Step; readonly facts: PodFacts },
  deps: Deps,
): AttachmentError {
  const error = { reason, message };
  if (deps.failures.isNew(step, error)) reportPlanError(error, { facts, about }, deps);
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
  const holder = action.kind === "add" ? findHolder(interfaceNameOf(action), failed) : undefined;
  return action.kind === "add" && holder !== undefined
    ? toNameInUseError(action, { facts, holder }, deps)
    : undefined;
}

/** Attachment errors are returned and not thrown. */
export async function act(
  actions: readonly Action[],
  facts: PodFacts,
  deps: Deps,
): Promise<ActResult> {
  const stepFor = (action: Action): Step => toStep(action, facts, deps);
  deps.failures.retain(
    facts.uid,
    actions.map((action) => stepFor(action).name),
  );
  const {
    done,
    failed,
    retryInMs: againMs,
  } = await runSteps<Action, AttachmentError>(
    actions,
    async (action) => {
      await perform(action, facts, deps).finally(() => deps.onProgress?.());
    },
    {
      backoff: deps.failures,
      toStep: stepFor,
      explain: (action, error) => deps.failures.explain(stepFor(action), error, networkOf(action)),
      wait: (action, before) => {
        const shown = findWaitReason(action, { facts, failed: before }, deps);
        return shown && { shown, pauseMs: undefined };
      },
      report: (failedStep) => {
        reportFailed(failedStep, facts, deps);
      },
    },
  );
  return {
    errors: new Map(failed.map(({ action, shown }) => [interfaceNameOf(action), shown])),
    // The next pass may decide to detach what was adopted.
    retryInMs: done.some(({ kind }) => kind === "adopt") ? 0 : againMs,
  };
}

/** The result while the container runtime is unavailable: every attach and detach waits for it. */
export function blockAll(actions: readonly Action[], error: AttachmentError): ActResult {
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
    case "reportError": // always waits, and so is never performed
  }
}
