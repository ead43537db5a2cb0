// SPDX-License-Identifier: Apache-2.0
import type { VirtualMachineInstance } from "@patchbay/api";
import { isEqual } from "@patchbay/base";
import type { PlannedPolicy } from "@patchbay/core/policies";
import { done, keyOf, printKey, type Next } from "@patchbay/kube";
import type { Deps } from "./deps.ts";
import { NOT_SELECTED } from "./policies.ts";
import { findEventObject } from "./reconcilers/vmi/report.ts";
import { findLauncher } from "./server/find-guest.ts";

function announceOversized(
  vmi: VirtualMachineInstance,
  { oversized }: PlannedPolicy,
  { events }: Pick<Deps, "events">,
): void {
  for (const name of oversized) {
    const message = `NetworkPolicy ${name} has too many rules, peers, blocks or ports, so it allows no traffic of this VM: split it into several policies`;
    const note = {
      type: "Warning",
      reason: "NetworkPolicyTooLarge",
      message,
      about: name,
    } as const;
    events.record(findEventObject(vmi), note);
  }
}

export function createPolicyPass(
  deps: Pick<Deps, "policies" | "vmis" | "events" | "nodeName">,
  wake: (key: string) => void,
): () => Promise<Next> {
  let previous: ReadonlyMap<string, PlannedPolicy> = new Map();
  return () => {
    const current = new Map<string, PlannedPolicy>();
    for (const vmi of deps.vmis.list()) {
      const launcher = findLauncher(vmi, deps);
      if (launcher === undefined) continue;
      const planned = deps.policies.find(launcher);
      current.set(launcher.uid, planned);
      if (isEqual(previous.get(launcher.uid) ?? NOT_SELECTED, planned)) continue;
      announceOversized(vmi, planned, deps);
      wake(printKey(keyOf(vmi)));
    }
    previous = current;
    return Promise.resolve(done());
  };
}
