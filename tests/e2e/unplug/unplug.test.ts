// SPDX-License-Identifier: Apache-2.0
// A NIC is unplugged from a running VM in each way, in the right order, without packet loss on other NICs.
import { eventually, FEW_PORTS, KERNEL_ARGS, vmManifest } from "@patchbay/support";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { leaseFiles, linksOf } from "../inventory.ts";
import {
  addInterface,
  CHANGE_MS,
  expectGone,
  expectReady,
  ifaceStatus,
  machine,
  ping,
  removeInterface,
  setAddress,
} from "../machine.ts";

const NIC = { name: "spare", network: "blue" };
const TEMPLATE = "/spec/template/spec";

function indexOf(name: string): number {
  const ifaces = machine.findVm("alpha")?.spec.template.spec.domain.devices?.interfaces ?? [];
  return ifaces.findIndex((iface) => iface.name === name);
}

function patchVm(operations: readonly unknown[]): void {
  machine.patch("vm", "alpha", operations);
}

describe("a NIC is unplugged", () => {
  beforeAll(async () => {
    addInterface("alpha", { name: "base", network: "blue" });
    addInterface("beta", { name: "base", network: "blue" });
    await setAddress("alpha", "base", "10.9.0.1/24");
    await setAddress("beta", "base", "10.9.0.2/24");
  });

  test.each([
    {
      name: "by the subresource",
      ask: () => {
        removeInterface("alpha", NIC.name);
      },
    },
    {
      name: "by state: absent",
      ask: () => {
        const path = `${TEMPLATE}/domain/devices/interfaces/${String(indexOf(NIC.name))}/state`;
        patchVm([{ op: "add", path, value: "absent" }]);
      },
    },
    {
      name: "by deleting its entry from the spec",
      ask: () => {
        const index = String(indexOf(NIC.name));
        patchVm([
          { op: "remove", path: `${TEMPLATE}/networks/${index}` },
          { op: "remove", path: `${TEMPLATE}/domain/devices/interfaces/${index}` },
        ]);
      },
    },
  ])("$name, without leftovers", async ({ ask }) => {
    const podUid = machine.findPod("alpha")?.metadata.uid ?? "";
    const linksBefore = linksOf(podUid);
    const leasesBefore = leaseFiles("pbt-blue");
    addInterface("alpha", NIC);
    const status = await expectReady("alpha", NIC.name);
    expect(linksOf(podUid)).toHaveLength(linksBefore.length + 3);
    expect(leaseFiles("pbt-blue")).toHaveLength(leasesBefore.length + 1);
    const console = machine.console("alpha");
    const since = console.position();
    const others = ping("alpha", "10.9.0.2", { count: 40, intervalMs: 100 });
    ask();
    await console.waitForLine(/nic removed/, { timeoutMs: CHANGE_MS, since });
    await expectGone("alpha", NIC.name);
    await eventually(() => indexOf(NIC.name) === -1, { withinMs: CHANGE_MS });
    expect(linksOf(podUid)).toEqual(linksBefore);
    expect(leaseFiles("pbt-blue")).toEqual(leasesBefore);
    expect(
      machine.findPod("alpha")?.metadata.annotations?.["k8s.v1.cni.cncf.io/networks"],
    ).not.toContain(status.podInterfaceName);
    expect(await others).toEqual({ sent: 40, received: 40 });
  });
});

test("a NIC renamed in a running VM is unplugged, and plugged with the MAC of its new pod NIC", async () => {
  addInterface("alpha", NIC);
  await expectReady("alpha", NIC.name);
  const index = String(indexOf(NIC.name));
  const rename = (path: string): object => ({ op: "replace", path, value: "renamed" });
  patchVm([
    rename(`${TEMPLATE}/networks/${index}/name`),
    rename(`${TEMPLATE}/domain/devices/interfaces/${index}/name`),
  ]);
  await expectGone("alpha", NIC.name);
  const after = await expectReady("alpha", "renamed");
  const attachments = machine.findVmi("alpha")?.status?.attachments ?? [];
  expect(after.mac).toBe(attachments.find(({ name }) => name === "renamed")?.mac);
  removeInterface("alpha", "renamed");
  await expectGone("alpha", "renamed");
});

describe("an unplug that the guest has not completed", () => {
  // Without its ACPI hotplug driver a guest never releases a device.
  const stubborn = { name: "stubborn", kernelArgs: `${KERNEL_ARGS} acpiphp.disable=1` };

  beforeAll(async () => {
    const nics = [{ name: "default" }, { name: "keep", network: "blue" }];
    machine.apply(vmManifest({ ...stubborn, nics, pcieRootPorts: FEW_PORTS }));
    await expectReady("stubborn", "keep");
    await machine.booted("stubborn");
  });

  afterAll(() => {
    machine.delete("vm", "stubborn");
  });

  test("is canceled by adding the same NIC again", async () => {
    const before = await expectReady("stubborn", "keep");
    removeInterface("stubborn", "keep");
    await eventually(() => ifaceStatus("stubborn", "keep")?.hotplug?.phase === "Detaching", {
      withinMs: CHANGE_MS,
    });
    addInterface("stubborn", { name: "keep", network: "blue" });
    const after = await expectReady("stubborn", "keep");
    expect(after.mac).toBe(before.mac);
    expect(after.pciAddress).toBe(before.pciAddress);
    expect(
      machine
        .console("stubborn")
        .lines()
        .filter((line) => line.includes("nic removed")),
    ).toEqual([]);
  });
});
