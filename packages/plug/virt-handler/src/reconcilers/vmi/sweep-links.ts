// SPDX-License-Identifier: Apache-2.0
// Removes links of ours that belong to nobody. That some stay hinders no iface: it is tried again later.
import type { Hindrance, NodeAction } from "@patchbay/core";
import { keyOf, printKey } from "@patchbay/kube";
import { findHeld, tryStep, type Fallible, type Obstacle } from "./tries.ts";
import type { Turn } from "./turn.ts";

/** Removal of what is left around one NIC. */
type SweepAction = Extract<NodeAction, { kind: "sweepLinks" }>;

/** How the steps' names begin, before the name of the NIC in the pod. */
const STEP = "sweepLinks";

/** Nobody is shown it. */
const UNTOLD: Hindrance = { reason: "UnwiringFailed", message: "", attempts: 0 };

type Wiring = SweepAction["wiring"];

function nameOf({ podInterfaceName }: Wiring): string {
  return `${STEP} ${podInterfaceName}`;
}

/** Names of the steps among those that are left alone when they fail. */
export function sweepStepsOf(strays: readonly Wiring[] = []): readonly string[] {
  return strays.map(nameOf);
}

/** Removes one wiring; what keeps it from being removed. */
export async function sweepLinks(action: SweepAction, turn: Turn): Promise<Obstacle | undefined> {
  const { facts, session, deps } = turn;
  const step: Fallible = {
    scope: facts.vmi.metadata.uid ?? "",
    name: nameOf(action.wiring),
    circumstances: "",
    explain: () => UNTOLD,
  };
  const held = findHeld(step, turn);
  if (held !== undefined) return held;
  const remove = (): Promise<void> =>
    deps.podNetwork.unwireTap(session.launcher.netns, action.wiring);
  const obstacle = await tryStep(step, remove, turn);
  const where = { vmi: printKey(keyOf(facts.vmi)), link: action.wiring.podInterfaceName };
  if (obstacle === undefined) deps.log.warn("removed links that belonged to no iface", where);
  else deps.log.warn("links that belong to no iface stay", { ...where, err: obstacle.error });
  return obstacle;
}
