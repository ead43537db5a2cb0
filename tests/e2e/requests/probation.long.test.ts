// SPDX-License-Identifier: Apache-2.0
// An interface plugged on probation stays if frames pass or the fault is outside the pod, and is unplugged if the fault
// is the guest's own. A link set down is named.
import { execFileSync } from "node:child_process";
import { bridgeNetworkManifest, eventually } from "@patchbay/support";
import { afterAll, afterEach, beforeAll, expect, test } from "vitest";
import { examine, hopOf } from "../examine.ts";
import {
  CHANGE_MS,
  expectGone,
  expectReady,
  ifaceStatus,
  machine,
  removeInterface,
} from "../machine.ts";
import { virsh } from "../virsh.ts";

const [VM, NIC, NETWORK] = ["beta", "trial", "trial"];
const BRIDGE = "pbt-trial";
/** The bridge's uplink and its peer. */
const [UPLINK, SWITCH] = ["pbt-trial0", "pbt-trial1"];
/** It has one free address. */
const [SUBNET, ONLY_ADDRESS] = ["10.98.77.0/30", "10.98.77.2"];

function link(...text: readonly string[]): void {
  execFileSync("ip", ["link", ...text], { stdio: ["ignore", "ignore", "pipe"] });
}

function claimAddress(): void {
  execFileSync("ip", ["addr", "add", `${ONLY_ADDRESS}/32`, "dev", SWITCH]);
}

function removeLinks(): void {
  for (const name of [UPLINK, BRIDGE]) {
    try {
      link("del", name);
    } catch {
      // It is missing.
    }
  }
}

function plug(...more: readonly string[]) {
  const network = ["--network-attachment-definition-name", NETWORK];
  const text = ["addinterface", VM, "--name", NIC, ...network, "--check", ...more];
  return machine.try(["patchbay", "--data-dir", machine.dataDir, ...text]);
}

beforeAll(() => {
  removeLinks();
  link("add", BRIDGE, "type", "bridge");
  link("add", UPLINK, "type", "veth", "peer", "name", SWITCH);
  link("set", UPLINK, "master", BRIDGE, "up");
  machine.apply(bridgeNetworkManifest(NETWORK, BRIDGE, SUBNET));
});

afterEach(async () => {
  const interfaces = machine.findVmi(VM)?.spec.domain.devices?.interfaces ?? [];
  if (interfaces.some(({ name }) => name === NIC)) removeInterface(VM, NIC);
  await expectGone(VM, NIC);
});

afterAll(() => {
  machine.deleteIfPresent("net-attach-def", NETWORK);
  removeLinks();
});

test("a working NIC stays, and a link that is set down later is named", async () => {
  link("set", SWITCH, "up");
  const { code, stdout, stderr } = plug();
  expect(stderr).toBe("");
  expect(code).toBe(0);
  expect(stdout).toContain(`plug of interface ${NIC} done`);
  expect(stdout).toMatch(/✓ uplink +pbt-trial0: it is up/);
  const { mac = "" } = await expectReady(VM, NIC);
  const position = machine
    .findVmi(VM)
    ?.spec.domain.devices?.interfaces?.findIndex(({ name }) => name === NIC);
  const place = `/spec/template/spec/domain/devices/interfaces/${String(position)}`;
  const patch = [
    { op: "test", path: `${place}/name`, value: NIC },
    { op: "add", path: `${place}/state`, value: "down" },
  ];
  machine.patch("vm", VM, patch);
  await eventually(() => ifaceStatus(VM, NIC)?.linkState === "down", { withinMs: CHANGE_MS });
  expect(virsh(VM, "domif-getlink", mac)).toContain("down");
  const found = await examine(VM, NIC);
  expect(found).toMatchObject({ code: 1, dead: "device DeviceLinkDown" });
  expect(hopOf(found, "device")?.name).toBe(mac);
  expect(hopOf(found, "device")?.fix).toContain("--link up");
});

test("a fault outside the pod is reported, and the interface stays", () => {
  link("set", SWITCH, "down");
  const { code, stdout, stderr } = plug();
  expect(code).toBe(1);
  expect(stdout).toMatch(/✗ uplink +pbt-trial0: it has no carrier/);
  expect(stderr).toContain(`interface ${NIC} of ${VM} does not work: uplink: it has no carrier`);
  expect(stderr).toContain(
    "it was left in place, because the fault is not in the guest or its pod",
  );
  expect(ifaceStatus(VM, NIC)?.hotplug?.phase).toBe("Ready");
});

test.each([
  { what: "is unplugged", more: [], stands: "it was unplugged again", stays: false },
  { what: "stays with --keep", more: ["--keep"], stands: "because of --keep", stays: true },
])("a NIC that fails because of another host's equal address $what", ({ more, stands, stays }) => {
  link("set", SWITCH, "up");
  if (!stays) claimAddress();
  const { code, stderr } = plug(...more);
  expect(code).toBe(1);
  expect(stderr).toContain(`interface ${NIC} of ${VM} does not work: guest: `);
  expect(stderr).toContain("has the guest's address too");
  expect(stderr).toContain(stands);
  expect(ifaceStatus(VM, NIC)?.hotplug?.phase).toBe(stays ? "Ready" : undefined);
});
