// SPDX-License-Identifier: Apache-2.0
// The step that defines and starts the domain. libvirt's own events of the attempt wake the loop.
import { domainNameOf, guestHindranceOf, type NodeAction } from "@patchbay/core";
import { keyOf, printKey } from "@patchbay/kube";
import { timed, type StepContext } from "../step-context.ts";
import type { NodeStep } from "./node-step.ts";

/** A step on the domain as a whole. */
type DomainAction = Extract<NodeAction, { kind: "defineDomain" | "startDomain" }>;

/** Whether the step is one on the domain as a whole. */
export function isOnDomain(action: NodeAction): action is DomainAction {
  return action.kind === "defineDomain" || action.kind === "startDomain";
}

/** Name of the start among the steps that are left alone. */
export const START_STEP = "startGuest";

async function perform(action: DomainAction, { facts, session }: StepContext): Promise<void> {
  switch (action.kind) {
    case "defineDomain":
      await session.connection.defineDomain(action.xml);
      return;
    case "startDomain":
      await session.connection.startDomain(
        domainNameOf(facts.vmi),
        action.paused === true ? "paused" : "running",
      );
  }
}

/** The step of these actions, of which there is at least one. */
export function startStep(actions: readonly DomainAction[], context: StepContext): NodeStep {
  const { vmi } = context.facts;
  return {
    scope: vmi.metadata.uid ?? "",
    name: START_STEP,
    circumstances: JSON.stringify(actions),
    ifaces: [],
    isOnDevice: false,
    perform: async () => {
      for (const action of actions) await timed(action, context, () => perform(action, context));
    },
    explain: (error) => guestHindranceOf(vmi, "GuestNotStarted", error),
    log: ({ shown, pauseMs: retryMs, error: err }) => {
      context.deps.log.warn("the guest cannot be started", {
        ...{ vmi: printKey(keyOf(vmi)), attempt: shown.attempts, retryMs, err },
      });
    },
  };
}
