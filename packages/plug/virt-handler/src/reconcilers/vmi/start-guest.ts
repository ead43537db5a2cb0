// SPDX-License-Identifier: Apache-2.0
// Defines and starts the domain: one step, which is left alone for a growing time when it fails. libvirt's own events
// of the attempt wake the loop.
import { domainNameOf, guestHindranceOf, type NodeAction } from "@patchbay/core";
import { keyOf, printKey } from "@patchbay/kube";
import { findHeld, tryStep, type Fallible, type Obstacle } from "./tries.ts";
import { timed, type Turn } from "./turn.ts";

/** A step on the domain as a whole. */
type DomainAction = Extract<NodeAction, { kind: "defineDomain" | "startDomain" }>;

/** Whether the step is one on the domain as a whole. */
export function isOnDomain(action: NodeAction): action is DomainAction {
  return action.kind === "defineDomain" || action.kind === "startDomain";
}

/** Name of the start among the steps that are left alone. */
export const START_STEP = "startGuest";

async function perform(action: DomainAction, { facts, session }: Turn): Promise<void> {
  switch (action.kind) {
    case "defineDomain":
      await session.connection.defineDomain(action.xml);
      return;
    case "startDomain":
      await session.connection.startDomain(domainNameOf(facts.vmi));
  }
}

/** Takes the steps, of which there is at least one, unless they failed a moment ago; undefined when the guest runs. */
export async function startGuest(
  actions: readonly DomainAction[],
  turn: Turn,
): Promise<Obstacle | undefined> {
  const { vmi } = turn.facts;
  const step: Fallible = {
    scope: vmi.metadata.uid ?? "",
    name: START_STEP,
    circumstances: JSON.stringify(actions),
    explain: (error) => guestHindranceOf(vmi, "GuestNotStarted", error),
  };
  const held = findHeld(step, turn);
  if (held !== undefined) return held;
  const obstacle = await tryStep(
    step,
    async () => {
      for (const action of actions) await timed(action, turn, () => perform(action, turn));
    },
    turn,
  );
  if (obstacle !== undefined) {
    const { hindrance, pauseMs: retryMs, error: err } = obstacle;
    turn.deps.log.warn("the guest cannot be started", {
      ...{ vmi: printKey(keyOf(vmi)), attempt: hindrance.attempts, retryMs, err },
    });
  }
  return obstacle;
}
