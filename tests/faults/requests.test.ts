// SPDX-License-Identifier: Apache-2.0
// The API cost of a plug and an unplug: every request of virt-controller, net-agent and virt-handler. A subresource
// request costs one more, virt-api's.
import { expect, test } from "vitest";
import { Cluster } from "./memory/cluster.ts";
import { NodeInMemory } from "./memory/node-in-memory.ts";
import { begin, nicsBecome, ONE, TWO, type Story } from "./stories.ts";

/** Requests from the change of the VM until the cluster settles. */
async function requestsOf(scenario: Pick<Story, "before" | "act">): Promise<readonly string[]> {
  const cluster = new Cluster([new NodeInMemory()]);
  try {
    await begin(scenario, cluster);
    const before = cluster.requests.length;
    await scenario.act(cluster);
    await cluster.settle();
    return cluster.requests.slice(before).toSorted();
  } finally {
    await cluster.close();
  }
}

test("a plug takes eight requests", async () => {
  const act = nicsBecome([ONE, TWO]);
  expect(await requestsOf({ before: [ONE], act })).toEqual([
    "net-agent create events",
    "net-agent patch pods/status",
    "virt-controller patch pods",
    "virt-controller patch virtualmachineinstances",
    "virt-controller patch virtualmachineinstances/status",
    "virt-controller patch virtualmachines/status",
    "virt-handler create events",
    "virt-handler patch virtualmachineinstances/status",
  ]);
});

test("an unplug that the guest completes immediately takes twelve", async () => {
  const act = nicsBecome([ONE, { ...TWO, state: "absent" }]);
  expect(await requestsOf({ before: [ONE, TWO], act })).toEqual([
    "net-agent create events",
    "net-agent patch pods/status",
    "virt-controller patch pods",
    "virt-controller patch virtualmachineinstances",
    "virt-controller patch virtualmachineinstances",
    "virt-controller patch virtualmachineinstances/status",
    "virt-controller patch virtualmachineinstances/status",
    "virt-controller patch virtualmachines",
    "virt-controller patch virtualmachines/status",
    "virt-handler create events",
    "virt-handler patch virtualmachineinstances/status",
    "virt-handler patch virtualmachineinstances/status",
  ]);
});
