// SPDX-License-Identifier: Apache-2.0
import { domainNameOf, type NodeAction } from "@patchbay/core/vm";
import { guestBlockedReason, type BlockedReason } from "@patchbay/core/status";
import { waitingForHooks } from "@patchbay/core/reasons";
import { keyOf, printKey, type Step } from "@patchbay/kube";
import { makeCloudInitDisks } from "../../../hooks/cloud-init-disks.ts";
import type { HookState } from "../../../hooks/guest-hooks.ts";
import { performTimed, type StepContext, type NodeStep } from "./step-context.ts";

type DomainAction = Extract<NodeAction, { kind: "defineDomain" | "startDomain" | "resumeDomain" }>;

export function isDomainAction(action: NodeAction): action is DomainAction {
  return ["defineDomain", "startDomain", "resumeDomain"].includes(action.kind);
}

export const START_STEP = "startGuest";

/** Starts the hook calls for the domain unless they were started, and returns their state. Without hooks, returns the domain unchanged. */
function callHooks(domainXml: string, { facts, pod, session, wake, deps }: StepContext): HookState {
  const { sidecars = [] } = session.launcher;
  if (sidecars.length === 0) return { kind: "answered", domainXml, cloudInit: [] };
  const hookNics = facts.ifaces.filter(({ binding }) => binding.kind === "hook");
  const request = {
    pod,
    sidecars,
    vmi: facts.vmi,
    domainXml,
    hookNics: hookNics.map(({ name }) => name),
  };
  return deps.guestHooks.ensureCalled(request, wake);
}

async function define(domainXml: string, context: StepContext): Promise<void> {
  const hookState = callHooks(domainXml, context);
  if (hookState.kind === "failed") {
    context.deps.guestHooks.retry(context.pod);
    throw hookState.error;
  }
  if (hookState.kind === "calling") return; // This cannot occur, because `waitForHooks` delays the step until the hooks have answered.
  makeCloudInitDisks(hookState.cloudInit, context);
  await context.session.connection.defineDomain(hookState.domainXml);
}

async function perform(action: DomainAction, context: StepContext): Promise<void> {
  const { facts, session } = context;
  switch (action.kind) {
    case "defineDomain":
      await define(action.xml, context);
      return;
    case "resumeDomain":
      await session.connection.resumeDomain(domainNameOf(facts.vmi));
      return;
    case "startDomain":
      await session.connection.startDomain(
        domainNameOf(facts.vmi),
        action.paused === true ? "paused" : "running",
      );
  }
}

/** Returns the reason to wait while hook calls are pending. Returns undefined if no calls are pending or the step is in backoff. */
function waitForHooks(
  actions: readonly DomainAction[],
  step: Step,
  context: StepContext,
): { readonly summary: BlockedReason; readonly pauseMs: undefined } | undefined {
  if (context.deps.stepBackoff.findDelay(step) !== undefined) return undefined;
  const isCalling = actions.some(
    (action) => action.kind === "defineDomain" && callHooks(action.xml, context).kind === "calling",
  );
  if (!isCalling) return undefined;
  const summary = waitingForHooks(context.session.launcher.sidecars ?? []);
  return { summary, pauseMs: undefined };
}

export function buildStartStep(actions: readonly DomainAction[], context: StepContext): NodeStep {
  const { vmi } = context.facts;
  const step: Step = {
    scope: vmi.metadata.uid ?? "",
    name: START_STEP,
    inputs: JSON.stringify(actions),
  };
  return {
    ...step,
    ifaces: [],
    isDeviceStep: false,
    perform: async () => {
      for (const action of actions)
        await performTimed(action, context, () => perform(action, context));
    },
    explain: (error) => guestBlockedReason(vmi, "GuestNotStarted", error),
    log: ({ summary, pauseMs: retryMs, error: err }) => {
      context.deps.log.warn("the guest cannot be started", {
        vmi: printKey(keyOf(vmi)),
        attempt: summary.attempts,
        retryMs,
        err,
      });
    },
    findWaitReason: () => waitForHooks(actions, step, context),
  };
}
