// SPDX-License-Identifier: Apache-2.0
// The step that defines and starts the domain, modified by the guest's hooks. libvirt's events and the hooks' answers wake the
// loop.
import {
  domainNameOf,
  guestHindranceOf,
  waitingForHooks,
  type Hindrance,
  type NodeAction,
} from "@patchbay/core";
import { keyOf, printKey, type Step } from "@patchbay/kube";
import { makeCloudInitDisks } from "../../../hooks/cloud-init-disks.ts";
import type { HookState } from "../../../hooks/guest-hooks.ts";
import { timed, type StepContext, type NodeStep } from "./step-context.ts";

type DomainAction = Extract<NodeAction, { kind: "defineDomain" | "startDomain" | "resumeDomain" }>;

export function isOnDomain(action: NodeAction): action is DomainAction {
  return ["defineDomain", "startDomain", "resumeDomain"].includes(action.kind);
}

export const START_STEP = "startGuest";

/** State of the hooks' answers for this domain. Without hooks the domain is used unchanged. */
function hookedOf(domainXml: string, { facts, pod, session, wake, deps }: StepContext): HookState {
  const { sidecars = [] } = session.launcher;
  if (sidecars.length === 0) return { kind: "answered", domainXml, cloudInit: [] };
  const made = facts.ifaces.filter(({ binding }) => binding.kind === "hook");
  const request = { pod, sidecars, vmi: facts.vmi, domainXml, made: made.map(({ name }) => name) };
  return deps.guestHooks.look(request, wake);
}

async function define(domainXml: string, context: StepContext): Promise<void> {
  const hooked = hookedOf(domainXml, context);
  if (hooked.kind === "failed") {
    context.deps.guestHooks.retry(context.pod);
    throw hooked.error;
  }
  if (hooked.kind === "asking") return; // the step waits for the answers beforehand
  makeCloudInitDisks(hooked.cloudInit, context);
  await context.session.connection.defineDomain(hooked.domainXml);
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

/** Waits until the hooks have answered. A failed start backs off first. */
function waitOf(
  actions: readonly DomainAction[],
  step: Step,
  context: StepContext,
): { readonly shown: Hindrance; readonly pauseMs: undefined } | undefined {
  if (context.deps.steps.findHeld(step) !== undefined) return undefined;
  const isAsked = actions.some(
    (action) => action.kind === "defineDomain" && hookedOf(action.xml, context).kind === "asking",
  );
  if (!isAsked) return undefined;
  const shown = waitingForHooks(context.session.launcher.sidecars ?? []);
  return { shown, pauseMs: undefined };
}

/** Builds one step of one or more actions. */
export function startStep(actions: readonly DomainAction[], context: StepContext): NodeStep {
  const { vmi } = context.facts;
  const step: Step = {
    scope: vmi.metadata.uid ?? "",
    name: START_STEP,
    circumstances: JSON.stringify(actions),
  };
  return {
    ...step,
    ifaces: [],
    isOnDevice: false,
    perform: async () => {
      for (const action of actions) await timed(action, context, () => perform(action, context));
    },
    explain: (error) => guestHindranceOf(vmi, "GuestNotStarted", error),
    log: ({ shown, pauseMs: retryMs, error: err }) => {
      context.deps.log.warn("the guest cannot be started", {
        vmi: printKey(keyOf(vmi)),
        attempt: shown.attempts,
        retryMs,
        err,
      });
    },
    wait: () => waitOf(actions, step, context),
  };
}
