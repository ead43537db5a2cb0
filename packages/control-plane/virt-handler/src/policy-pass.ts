// SPDX-License-Identifier: Apache-2.0
import type { VirtualMachineInstance } from "@patchbay/api";
import { isEqual } from "@patchbay/base";
import type { PlannedNetworks } from "@patchbay/core/policies";
import { done, keyOf, printKey, type Next } from "@patchbay/kube";
import type { Deps } from "./deps.ts";
import { NOT_SELECTED, type VmPolicies } from "./policies.ts";
import { findEventObject } from "./reconcilers/vmi/report.ts";
import { findLauncher } from "./server/find-guest.ts";

function announceOversized(
  vmi: VirtualMachineInstance,
  { oversized, networks }: VmPolicies,
  { events }: Pick<Deps, "events">,
): void {
  const policies = [
    ...oversized.map((name) => `NetworkPolicy ${name}`),
    ...(networks?.oversized ?? []).map(describePolicy),
  ];
  for (const policy of policies) {
    const message = `${policy} has too many rules, peers, blocks or ports, so it allows no traffic of this VM: split it into several policies`;
    const note = {
      type: "Warning",
      reason: "NetworkPolicyTooLarge",
      message,
      about: policy,
    } as const;
    events.record(findEventObject(vmi), note);
  }
}

function describePolicy({ policy, network }: PlannedNetworks["unmatched"][number]): string {
  return `MultiNetworkPolicy ${policy} on network ${network}`;
}

/** Reports rules without peers, because users may expect that other pods on the network are peers. */
function announceUnmatched(
  vmi: VirtualMachineInstance,
  { before, after }: { readonly before: VmPolicies; readonly after: VmPolicies },
  { events }: Pick<Deps, "events">,
): void {
  const known = (before.networks?.unmatched ?? []).map(describePolicy);
  for (const policy of (after.networks?.unmatched ?? []).map(describePolicy)) {
    if (known.includes(policy)) continue;
    const message = `the selectors of a rule of ${policy} match no VM that has an address there, so they allow nothing: other pods are no peers on this network, allow their addresses by ipBlock`;
    const note = {
      type: "Normal",
      reason: "NetworkPolicyWithoutPeers",
      message,
      about: policy,
    } as const;
    events.record(findEventObject(vmi), note);
  }
}

export function createPolicyPass(
  deps: Pick<Deps, "policies" | "vmis" | "events" | "nodeName">,
  wake: (key: string) => void,
): () => Promise<Next> {
  let previous: ReadonlyMap<string, VmPolicies> = new Map();
  return () => {
    const current = new Map<string, VmPolicies>();
    for (const vmi of deps.vmis.list()) {
      const launcher = findLauncher(vmi, deps);
      if (launcher === undefined) continue;
      const planned = deps.policies.find(vmi, launcher);
      current.set(launcher.uid, planned);
      const before = previous.get(launcher.uid) ?? NOT_SELECTED;
      if (isEqual(before, planned)) continue;
      announceOversized(vmi, planned, deps);
      announceUnmatched(vmi, { before, after: planned }, deps);
      wake(printKey(keyOf(vmi)));
    }
    previous = current;
    return Promise.resolve(done());
  };
}
