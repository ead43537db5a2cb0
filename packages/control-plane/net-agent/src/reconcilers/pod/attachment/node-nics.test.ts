// SPDX-License-Identifier: Apache-2.0
// NICs of the node that plugin host-device moved into a pod are restored after the pod's end.
import { AppError } from "@patchbay/base";
import type { NodeNic } from "@patchbay/core/interfaces";
import { beforeEach, describe, expect, test } from "vitest";
import { HOST_INODE, inodeOf, World } from "../../../testing/world.ts";

const POD = { inode: inodeOf("uid-1"), name: "net1" };
const CARD: NodeNic = {
  name: "eth1",
  index: 3,
  kind: "",
  mac: "02:00:00:00:00:01",
  mtu: 9000,
  up: true,
  alias: "",
  permanentMac: "02:00:00:00:00:01",
  addresses: ["10.9.1.2/24", "fd09:1::2/64"],
  routes: ["default via 10.9.1.1"],
};
/** Like {@link CARD}, but the kernel deletes this kind with its namespace. */
const VLAN: NodeNic = { ...CARD, kind: "vlan" };
const REFUSAL = new AppError("CNI_PLUGIN_FAILED", {
  plugin: "host-device",
  command: "DEL",
  message: "no",
  cniCode: 999,
});
/** More calls than any scenario has. */
const CALLS_MAX = 40;
const TRIES = 5;

let world: World;

function begin(card = CARD): World {
  world = new World();
  world.putNad({ namespace: "ns1", name: "card" }, { type: "host-device", device: card.name });
  world.nodeNics.put(HOST_INODE, card);
  return world;
}

beforeEach(() => {
  begin();
});

async function plug(): Promise<void> {
  await world.putPod({ networks: "card@net1" });
  expect(await world.pass()).toBeUndefined();
  expect(world.nodeNics.listNames(POD.inode)).toEqual(["net1"]);
}

function host(): readonly (NodeNic | undefined)[] {
  return world.nodeNics
    .listNames(HOST_INODE)
    .map((name) => world.nodeNics.findNic(HOST_INODE, name));
}

async function rows(): Promise<number> {
  return (await world.journal.list("uid-1")).length;
}

/** Returns the hardware of a deleted namespace to the host, like the kernel. */
function kernelGivesBack(name = "dev7"): void {
  world.nodeNics.move(POD, HOST_INODE, { name, index: 7 });
}

const told = (): readonly string[] =>
  world.notes.filter(({ reason }) => reason === "NodeNicNotRestored").map((note) => note.message);

test("is recorded on disk before its plugin runs", async () => {
  await plug();
  expect((await world.journal.list("uid-1"))[0]?.nodeNics).toEqual([CARD]);
  expect(world.openNamespaces).toBe(0);
});

test("is restored by an unplug", async () => {
  await plug();
  await world.putPod({ networks: "" });
  expect(await world.pass()).toBeUndefined();
  expect(host()).toEqual([CARD]);
  expect(await rows()).toBe(0);
  expect(world.lines.map(({ message }) => message)).toContain("restored a NIC of the node");
  expect(world.openNamespaces).toBe(0);
});

test("is restored when the pod ends and its namespace is gone already", async () => {
  await plug();
  await world.deletePod();
  world.sandboxes.take("uid-1");
  world.dropNamespace("box-uid-1");
  kernelGivesBack();
  expect(await world.pass()).toBeUndefined();
  expect(host()).toEqual([{ ...CARD, index: 7 }]);
});

test("retries until hardware has returned to the node", async () => {
  await plug();
  await world.deletePod();
  world.sandboxes.take("uid-1");
  world.dropNamespace("box-uid-1");
  expect(await world.pass()).toEqual({ code: "PODNET_FAILED" });
  kernelGivesBack("net1");
  expect(await world.pass()).toBeUndefined();
  expect(host()).toEqual([{ ...CARD, index: 7 }]);
  expect(world.cni.calls.filter((call) => call.startsWith("DEL"))).toHaveLength(1);
  expect(told()).toEqual([]);
});

test("is moved back without a plugin that always fails", async () => {
  await plug();
  await world.putPod({ networks: "" });
  for (let pass = 1; pass <= TRIES; pass += 1) {
    world.cni.failNext("del", REFUSAL);
    await world.pass();
  }
  expect(host()).toEqual([{ ...CARD, index: expect.any(Number) as number }]);
  expect(world.nodeNics.listNames(POD.inode)).toEqual([]);
  expect(await rows()).toBe(0);
});

test("treats a plugin that does not find the NIC as done when the NIC is on the node", async () => {
  await plug();
  await world.putPod({ networks: "" });
  world.nodeNics.move(POD, HOST_INODE, { name: CARD.name });
  world.cni.failNext("del", REFUSAL);
  expect(await world.pass()).toBeUndefined();
  expect(host()).toEqual([CARD]);
});

test("stays unchanged when ADD fails", async () => {
  await world.putPod({ networks: "card@net1" });
  world.cni.failNext("add", new AppError("CNI_PLUGIN_FAILED", { ...REFUSAL.details }), "half");
  expect(await world.pass()).toEqual({ code: "CNI_PLUGIN_FAILED" });
  expect(host()).toEqual([CARD]);
});

describe("reports what cannot be restored, and does not block the detach:", () => {
  test("an address that the kernel rejects, after some attempts", async () => {
    await plug();
    await world.putPod({ networks: "" });
    world.nodeNics.refused = ["10.9.1.2/24"];
    for (let pass = 1; pass < TRIES; pass += 1) {
      expect(await world.pass()).toEqual({ code: "PODNET_FAILED" });
    }
    expect(told()).toEqual([]);
    expect(await world.pass()).toBeUndefined();
    expect(told()).toEqual([
      "net1 of ns1/card was detached, but the node's NIC was not fully restored: eth1 lacks 10.9.1.2/24; an administrator must configure the NIC on the node",
    ]);
    expect(await rows()).toBe(0);
  });

  test("a link that the kernel removed with the pod, at once", async () => {
    begin(VLAN);
    await plug();
    await world.deletePod();
    world.sandboxes.take("uid-1");
    world.dropNamespace("box-uid-1");
    world.nodeNics.drop(POD.inode);
    expect(await world.pass()).toBeUndefined();
    expect(told().join("")).toContain("eth1 was removed by the kernel with the pod");
  });
});

test("is not restored after a reboot, because the node has configured it", async () => {
  await plug();
  world.bootId = "boot-2";
  world.nodeNics.drop(POD.inode);
  world.nodeNics.put(HOST_INODE, { ...CARD, mtu: 1500 });
  await world.deletePod();
  world.sandboxes.take("uid-1");
  expect(await world.pass()).toBeUndefined();
  expect(host()).toEqual([{ ...CARD, mtu: 1500 }]);
});

test("restores the first record when another attachment takes the NIC too early", async () => {
  await plug();
  const [row] = await world.journal.list("uid-1");
  if (row === undefined) throw new Error("there is no row");
  // A former pod that has not fully restored it.
  const nodeNics = [{ ...CARD, mtu: 1400 }];
  await world.journal.write({ ...row, podUid: "uid-0", podName: "before", nodeNics });
  await world.putPod({ networks: "" });
  await world.pass();
  await plug();
  expect((await world.journal.list("uid-1"))[0]?.nodeNics).toEqual(nodeNics);
});

test("is restored in the end after a crash at any call", async () => {
  let deaths = 0;
  for (let dieAt = 1; dieAt <= CALLS_MAX; dieAt += 1) {
    begin();
    await plug();
    await world.putPod({ networks: "" });
    const isDead = await world.diesAt(dieAt);
    for (let pass = 1; pass <= TRIES + 1; pass += 1) await world.pass();
    expect(host(), `died at call ${String(dieAt)}`).toEqual([CARD]);
    expect(await rows()).toBe(0);
    expect(told()).toEqual([]);
    if (!isDead) break;
    deaths = dieAt;
  }
  expect(deaths).toBeGreaterThan(5);
  expect(deaths).toBeLessThan(CALLS_MAX);
});
