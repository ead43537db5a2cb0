// SPDX-License-Identifier: Apache-2.0
// A VM with devices on the root complex: plugs are rejected with a reason until it restarts without that.
import { eventually, FEW_PORTS, vmManifest } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { guestNics, restart } from "../guest.ts";
import { addInterface, CHANGE_MS, expectReady, machine, SUBRESOURCES } from "../machine.ts";

const VM = "rooted";
const ANNOTATION = "kubevirt.io/placePCIDevicesOnRootComplex";

function reportedAddresses(): readonly string[] {
  const interfaces = machine.findVmi(VM)?.status?.interfaces ?? [];
  return interfaces.map(({ pciAddress = "" }) => pciAddress);
}

function busOf(pciAddress: string): string | undefined {
  return pciAddress.split(":")[1];
}

beforeAll(async () => {
  const nics = [{ name: "default" }, { name: "red1", network: "red" }];
  machine.apply(
    vmManifest({ name: VM, nics, annotations: { [ANNOTATION]: "true" }, pcieRootPorts: FEW_PORTS }),
  );
  await machine.booted(VM);
});

afterAll(() => {
  machine.deleteIfPresent("vm", VM);
});

test("has its NICs on bus 0 and no ports", async () => {
  await expectReady(VM, "red1");
  expect(machine.findVmi(VM)?.status?.pciePorts).toEqual({ total: 0, free: 0 });
  const addresses = (await guestNics(VM)).map(({ pciAddress }) => pciAddress);
  expect(addresses).toEqual(reportedAddresses());
  expect(addresses.map(busOf)).toEqual(["00", "00"]);
});

test("rejects a plug and states why", () => {
  const path = `${SUBRESOURCES}/virtualmachines/${VM}/addinterface`;
  const body = { name: "red2", networkAttachmentDefinitionName: "red" };
  const { code, stderr } = machine.put(path, body);
  expect(code).not.toBe(0);
  expect(stderr).toContain("(Conflict)");
  expect(stderr).toContain(`the VM's devices are on the root complex (annotation ${ANNOTATION})`);
});

test("has ports after a restart without the annotation, and accepts a plug", async () => {
  const path = `/spec/template/metadata/annotations/${ANNOTATION.replace("/", "~1")}`;
  machine.patch("vm", VM, [{ op: "remove", path }]);
  await restart(VM);
  await expectReady(VM, "red1");
  expect(reportedAddresses().map(busOf)).not.toContain("00");
  addInterface(VM, { name: "red2", network: "red" });
  const { pciAddress } = await expectReady(VM, "red2");
  await eventually(async () => (await guestNics(VM)).some((nic) => nic.pciAddress === pciAddress), {
    withinMs: CHANGE_MS,
  });
});
