// SPDX-License-Identifier: Apache-2.0
// What the guest calls a NIC is in the status as soon as the guest's agent says it, for NICs that were there and for those
// that are plugged.
import { eventually, vmManifest } from "@patchbay/testing";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  addInterface,
  CHANGE_MS,
  expectReady,
  guestNic,
  ifaceStatus,
  machine,
} from "../machine.ts";

const VM = "named";

async function reportedName(iface: string): Promise<string> {
  return eventually(() => ifaceStatus(VM, iface)?.interfaceName, { withinMs: CHANGE_MS });
}

beforeAll(async () => {
  machine.apply(vmManifest({ name: VM, image: "agent" }));
  await machine.booted(VM);
});

afterAll(() => {
  machine.kubectl("delete", "vm", VM, "--ignore-not-found", "--wait=true");
});

test.each([
  { name: "default", plug: false },
  { name: "red1", plug: true },
])("NIC $name has the name that the guest uses", async ({ name, plug }) => {
  if (plug) addInterface(VM, { name, network: "red" });
  const { mac = "" } = await expectReady(VM, name);
  expect(await reportedName(name)).toBe(await guestNic(VM, mac));
  expect(ifaceStatus(VM, name)?.infoSource).toContain("guest-agent");
});

test("the list shows the names", async () => {
  const name = await reportedName("red1");
  const line = machine
    .patchbay("get", "interfaces", VM)
    .split("\n")
    .find((row) => row.startsWith("red1 "));
  expect(line?.trimEnd().endsWith(name)).toBe(true);
});
