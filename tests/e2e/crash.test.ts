// SPDX-License-Identifier: Apache-2.0
// Each process is killed in the middle of a plug and in the middle of an unplug: the request is completed, nothing is
// doubled, nothing is left.
import { eventually } from "@patchbay/testing";
import { describe, expect, test } from "vitest";
import { leaseFiles, linksOf } from "./inventory.ts";
import {
  addInterface,
  CHANGE_MS,
  expectGone,
  expectReady,
  machine,
  removeInterface,
} from "./machine.ts";

const COMPONENTS = [
  "apiserver",
  "virt-api",
  "virt-controller",
  "net-agent",
  "virt-handler",
  "node-runtime",
];
const NIC = { name: "crash", network: "blue" };

/** Kills the component and waits until the supervisor has started another. */
async function killComponent(component: string): Promise<void> {
  const pid = machine.pidOf(component);
  process.kill(pid, "SIGKILL");
  await eventually(() => machine.pidOf(component) !== pid, { withinMs: CHANGE_MS });
}

describe.each(COMPONENTS)("%s is killed", (component) => {
  test("in the middle of a plug, and in the middle of an unplug", async () => {
    const podUid = machine.findPod("alpha")?.metadata.uid ?? "";
    const before = { links: linksOf(podUid), leases: leaseFiles("blue") };
    addInterface("alpha", NIC);
    await killComponent(component);
    const status = await expectReady("alpha", NIC.name);
    const { lines } = await machine.console("alpha").run("report");
    expect(lines.filter((line) => line.includes(status.mac ?? "none"))).toHaveLength(1);
    expect(linksOf(podUid)).toHaveLength(before.links.length + 3);

    removeInterface("alpha", NIC.name);
    await killComponent(component);
    await expectGone("alpha", NIC.name);
    expect(linksOf(podUid)).toEqual(before.links);
    expect(leaseFiles("blue")).toEqual(before.leases);
  });
});
