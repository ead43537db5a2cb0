// SPDX-License-Identifier: Apache-2.0
// What others did to NICs that were ready, as a plan that mends it shows.
import type { IfaceFacts } from "../../iface/facts.ts";
import { isWanted } from "../../iface/phase.ts";
import type { NodeAction, NodeVmFacts } from "./node-vm.ts";
import { findByName } from "../../spec/nics.ts";

/** One iface that is not as it was made. */
export interface Drift {
  readonly iface: string;
  /** What people are told. */
  readonly message: string;
}

function sayLinks({ links: { tap, bridge } }: IfaceFacts): string {
  if (!tap && !bridge) return "its tap and its bridge were gone and are created again";
  if (!tap) return "its tap was gone and is created again";
  if (!bridge) return "its bridge was gone and is created again";
  return "its links in the pod were changed by something else and are repaired";
}

/** By the steps that mend. */
const WRONGS: Partial<Record<NodeAction["kind"], (facts: IfaceFacts) => string>> = {
  attachDevice: () => "its device was gone from the VM and is plugged again",
  detachDevice: () =>
    "its tap, or its socket, is not the one that its device uses; the device is unplugged and plugged again",
  linkSocket: () => "its socket was made anew and is shared with the launcher again",
  wireTap: sayLinks,
};

/** The drift that a plan repairs; none of ifaces that were not ready or are unplugged, or of a VMI that is being deleted. */
export function driftIn(
  plan: readonly NodeAction[],
  { vmi, ifaces }: Pick<NodeVmFacts, "vmi" | "ifaces">,
): readonly Drift[] {
  if (vmi.metadata.deletionTimestamp !== undefined) return [];
  return plan.flatMap((action): readonly Drift[] => {
    const facts = "iface" in action ? findByName(ifaces, action.iface) : undefined;
    const hotplug = facts?.reported?.hotplug;
    if (facts === undefined || hotplug?.phase !== "Ready" || !isWanted(facts)) return [];
    const wrong = WRONGS[action.kind]?.(facts);
    if (wrong === undefined) return [];
    return [{ iface: facts.name, message: `interface ${facts.name}: ${wrong}` }];
  });
}
