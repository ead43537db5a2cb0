// SPDX-License-Identifier: Apache-2.0
// The step that removes links of ours that belong to nobody. That some stay hinders no iface: it is tried again later.
import type { Hindrance, NodeAction } from "@patchbay/core";
import { keyOf, printKey } from "@patchbay/kube";
import type { StepContext, NodeStep } from "./step-context.ts";

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
export function sweepStepsOf(orphans: readonly Wiring[] = []): readonly string[] {
  return orphans.map(nameOf);
}

/** The step that removes one wiring. */
export function sweepStep(action: SweepAction, { facts, session, deps }: StepContext): NodeStep {
  const where = { vmi: printKey(keyOf(facts.vmi)), link: action.wiring.podInterfaceName };
  return {
    scope: facts.vmi.metadata.uid ?? "",
    name: nameOf(action.wiring),
    circumstances: "",
    ifaces: [],
    isOnDevice: false,
    perform: async () => {
      await deps.podNetwork.unwireTap(session.launcher.netns, action.wiring);
      deps.log.warn("removed links that belonged to no iface", where);
    },
    explain: () => UNTOLD,
    log: ({ error: err }) => {
      deps.log.warn("links that belong to no iface stay", { ...where, err });
    },
  };
}
