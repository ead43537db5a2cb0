// SPDX-License-Identifier: Apache-2.0
// Starts the DHCP server of a VM, or another in its place: one step, which is left alone for a growing time when it fails.
import { hindranceOfFailure, type NodeAction } from "@patchbay/core";
import { keyOf, printKey } from "@patchbay/kube";
import { findHeld, tryStep, type Fallible, type Obstacle } from "./tries.ts";
import { timed, type Turn } from "./turn.ts";

/** Name of the step among those that are left alone. */
export const SERVE_STEP = "serveAddresses";

/** Takes the step, unless it failed a moment ago; undefined when the server listens. */
export async function serveAddresses(
  action: Extract<NodeAction, { kind: "serveAddresses" }>,
  turn: Turn,
): Promise<Obstacle | undefined> {
  const { facts, pod, session, wake, deps } = turn;
  const step: Fallible = {
    scope: facts.vmi.metadata.uid ?? "",
    name: SERVE_STEP,
    circumstances: JSON.stringify(action),
    explain: (error) => hindranceOfFailure("serveAddresses", error, undefined),
  };
  const held = findHeld(step, turn);
  if (held !== undefined) return held;
  const serving = { netns: session.launcher.netns, nics: action.nics, ended: wake };
  const obstacle = await tryStep(
    step,
    () => timed(action, turn, () => deps.guestServers.serve(pod.uid, serving)),
    turn,
  );
  if (obstacle !== undefined) {
    const { pauseMs: retryMs, error: err } = obstacle;
    deps.log.warn("the guest gets no addresses", { vmi: printKey(keyOf(facts.vmi)), retryMs, err });
  }
  return obstacle;
}
