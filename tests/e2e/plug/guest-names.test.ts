// SPDX-License-Identifier: Apache-2.0
// What the guest calls a NIC, and which addresses it has, are in the status as soon as the guest's agent says it, for NICs
// that were there and for those that are plugged.
import { eventually, vmManifest } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  addInterface,
  CHANGE_MS,
  expectReady,
  guestNic,
  ifaceStatus,
  machine,
  setAddress,
} from "../machine.ts";

const VM = "named";
/** The agent is asked for the fourth time a minute after a change, and then every two minutes. */
const ASKED_AGAIN_MS = 150_000;

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

test("addresses that the guest took by itself are told, with their source, and stay with the NIC", async () => {
  const cidrs = ["10.99.7.2/24", "10.99.7.3/24", "fd99:7::2/64"];
  for (const cidr of cidrs) await setAddress(VM, "red1", cidr);
  const status = await eventually(
    () => {
      const told = ifaceStatus(VM, "red1");
      return told?.ipAddresses?.includes("fd99:7::2") === true ? told : undefined;
    },
    { withinMs: ASKED_AGAIN_MS },
  );
  expect(status.ipAddresses).toEqual(
    expect.arrayContaining(["10.99.7.2", "10.99.7.3", "fd99:7::2"]),
  );
  expect(status).toMatchObject({
    ipAddress: "10.99.7.2",
    infoSource: "domain, guest-agent, multus-status",
    addressInfo: { source: "guest-agent" },
    mtu: 1500,
  });
  expect(ifaceStatus(VM, "default")?.infoSource).toBe("domain, guest-agent");
  // The loopback of the guest is nobody's business.
  const all = machine.findVmi(VM)?.status?.interfaces ?? [];
  expect(all.filter(({ name }) => name === undefined)).toEqual([]);
});

test("the agent is told, and the guest's kernel as it says it itself", async () => {
  const { conditions = [], guestOSInfo } = await eventually(
    () => {
      const status = machine.findVmi(VM)?.status;
      return status?.guestOSInfo === undefined ? undefined : status;
    },
    { withinMs: CHANGE_MS },
  );
  expect(conditions).toContainEqual(
    expect.objectContaining({ type: "AgentConnected", status: "True" }),
  );
  expect(guestOSInfo?.kernelRelease).toMatch(/^\d+\.\d+/);
  expect(guestOSInfo?.machine).toMatch(/^(x86_64|aarch64)$/);
});

test("the list shows the names", async () => {
  const name = await reportedName("red1");
  const line = machine
    .patchbay("get", "interfaces", VM)
    .split("\n")
    .find((row) => row.startsWith("red1 "));
  expect(line?.trimEnd().endsWith(name)).toBe(true);
});
