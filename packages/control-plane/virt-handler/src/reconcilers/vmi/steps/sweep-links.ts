// SPDX-License-Identifier: Apache-2.0
// The step that removes Patchbay's links that no iface uses. A failure blocks no iface and is retried later.
import type { BlockedReason } from "@patchbay/core/status";
import type { NodeAction } from "@patchbay/core/vm";
import { keyOf, printKey } from "@patchbay/kube";
import type { StepContext, NodeStep } from "./step-context.ts";

type SweepAction = Extract<NodeAction, { kind: "sweepLinks" }>;

const STEP = "sweepLinks";

const UNREPORTED: BlockedReason = { reason: "UnwiringFailed", message: "", attempts: 0 };

type Wiring = SweepAction["wiring"];

function stepName({ podInterfaceName }: Wiring): string {
  return `${STEP} ${podInterfaceName}`;
}

export function listSweepStepNames(orphans: readonly Wiring[] = []): readonly string[] {
  return orphans.map(stepName);
}

export function buildSweepStep(
  action: SweepAction,
  { facts, session, deps }: StepContext,
): NodeStep {
  const where = { vmi: printKey(keyOf(facts.vmi)), link: action.wiring.podInterfaceName };
  return {
    scope: facts.vmi.metadata.uid ?? "",
    name: stepName(action.wiring),
    inputs: "",
    ifaces: [],
    isOnDevice: false,
    perform: async () => {
      await deps.podNetwork.unwireTap(session.launcher.netns, action.wiring);
      deps.log.warn("removed links that belong to no iface", where);
    },
    explain: () => UNREPORTED,
    log: ({ error: err }) => {
      deps.log.warn("failed to remove links that belong to no iface", { ...where, err });
    },
  };
}
