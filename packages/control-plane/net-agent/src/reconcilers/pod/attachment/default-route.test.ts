// SPDX-License-Identifier: Apache-2.0
// Default routes move to an attachment that requests them, and are restored when it is detached.
import { AppError } from "@patchbay/base";
import { beforeEach, describe, expect, test } from "vitest";
import { inodeOf, World } from "../../../testing/world.ts";

const INODE = inodeOf("uid-1");
const LINK = { kind: "veth", mac: "02:00:00:00:00:99", mtu: 1500, up: true };

let world: World;

beforeEach(() => {
  world = new World();
  world.putNads("a", "b");
  world.podNetwork.putLink(INODE, { name: "eth0", ...LINK });
  world.defaultRoutes.put(INODE, { version: 4, link: "eth0", gateway: "10.0.0.1" });
  world.defaultRoutes.put(INODE, { version: 6, link: "eth0", gateway: "fd00::1" });
});

function element(name: string, nic: string, ...gateways: readonly string[]): object {
  return { name, interface: nic, ...(gateways.length > 0 && { "default-route": gateways }) };
}

async function ask(...elements: readonly object[]): Promise<unknown> {
  await world.putPod({ networks: JSON.stringify(elements) });
  return world.pass();
}

function gateways(): readonly string[] {
  return world.defaultRoutes.listGateways(INODE).toSorted();
}

test("moves the route of its own address family only, and reports it in the status", async () => {
  await ask(element("a", "net1", "10.1.0.1"));
  expect(gateways()).toEqual(["10.1.0.1", "fd00::1"]);
  expect(await world.networkStatus()).toMatchObject([{ interface: "net1", gateway: ["10.1.0.1"] }]);
  expect(world.openNamespaces).toBe(0);
});

test("restores the replaced route when the attachment is detached", async () => {
  await ask(element("a", "net1", "10.1.0.1", "fd01::1"));
  expect(gateways()).toEqual(["10.1.0.1", "fd01::1"]);
  await ask();
  expect(gateways()).toEqual(["10.0.0.1", "fd00::1"]);
  expect(world.openNamespaces).toBe(0);
});

test("passes from one attachment to another in any order, and back to the cluster's network", async () => {
  await ask(element("a", "net1", "10.1.0.1"));
  await ask(element("b", "net2", "10.2.0.1"));
  expect(gateways()).toEqual(["10.2.0.1", "fd00::1"]);
  await ask();
  expect(gateways()).toEqual(["10.0.0.1", "fd00::1"]);
});

test("an unreachable gateway fails the attachment, and the pod retains its route", async () => {
  const message = 'the kernel refused "route add default via 10.9.9.9 dev net1": ENETUNREACH';
  world.defaultRoutes.failNext("add", new AppError("PODNET_FAILED", { message }));
  expect(await ask(element("a", "net1", "10.9.9.9"))).toEqual({ code: "CNI_REQUEST_NOT_MET" });
  expect(world.cni.attachments).toEqual([]);
  expect(gateways()).toEqual(["10.0.0.1", "fd00::1"]);
  expect(world.notes[0]?.message).toMatch(
    /a default route by 10\.9\.9\.9, which must be reached by an address of the NIC; the network assigned net1 no address \(.*ENETUNREACH/,
  );
});

test("reports failures that are not about routes unchanged", async () => {
  world.defaultRoutes.failNext("add", new AppError("OS_FILE_FAILED", { path: "netns" }));
  expect(await ask(element("a", "net1", "10.1.0.1"))).toEqual({ code: "OS_FILE_FAILED" });
});

test("rejects a pod with too many default routes and leaves them unchanged", async () => {
  for (let index = 0; index < 17; index += 1) {
    const gateway = `10.0.7.${String(index)}`;
    world.defaultRoutes.put(INODE, { version: 4, link: "eth0", gateway });
  }
  expect(await ask(element("a", "net1", "10.1.0.1"))).toEqual({ code: "CNI_REQUEST_NOT_MET" });
  expect(gateways()).toHaveLength(19);
  expect(world.cni.attachments).toEqual([]);
});

test("a route that cannot be restored is reported and does not block the detach", async () => {
  await ask(element("a", "net1", "10.1.0.1"));
  world.podNetwork.takeLink(INODE, "eth0");
  await ask();
  expect(world.cni.attachments).toEqual([]);
  expect(world.notes.filter(({ reason }) => reason === "DefaultRouteLost")).toMatchObject([
    { message: expect.stringContaining("default route via 10.0.0.1 at eth0") as string },
  ]);
  expect(await world.errorReasons()).toEqual({});
});

test("does not restore routes in a pod that has ended", async () => {
  await ask(element("a", "net1", "10.1.0.1"));
  world.defaultRoutes.failNext("list", new Error("nobody asks"));
  await world.deletePod();
  expect(await world.pass()).toBeUndefined();
  expect(world.cni.attachments).toEqual([]);
});

describe("is rejected", () => {
  test("for a second element", async () => {
    await ask(element("a", "net1", "10.1.0.1"), element("b", "net2", "fd01::1"));
    expect(await world.errorReasons()).toEqual({ net2: "RequestInvalid" });
    expect(world.notes.at(-1)?.message).toContain(
      "default-route: only one element may request it, and the element of a already does",
    );
    expect(gateways()).toEqual(["10.1.0.1", "fd00::1"]);
  });

  test("for the launcher of a VM, whose guest has its own routes", async () => {
    world.putVmi("vmi-1", "a");
    const networks = JSON.stringify([element("a", "net1", "10.1.0.1")]);
    await world.putPod({ networks, launcherOf: "vmi-1" });
    await world.pass();
    expect(await world.errorReasons()).toEqual({ net1: "RequestInvalid" });
    expect(await world.annotation("patchbay.io/attachment-errors")).toContain(
      "name the guest's interface in the annotation patchbay.io/default-route",
    );
    expect(gateways()).toEqual(["10.0.0.1", "fd00::1"]);
  });
});

test("a crash at any call leaves the routes to the next agent", async () => {
  for (let dieAt = 1; ; dieAt += 1) {
    await world.putPod({ networks: JSON.stringify([element("a", "net1", "10.1.0.1")]) });
    const died = await world.diesAt(dieAt);
    await world.pass();
    expect(gateways(), `died at ${String(dieAt)} of a plug`).toEqual(["10.1.0.1", "fd00::1"]);
    await world.putPod({ networks: "" });
    const diedTwice = await world.diesAt(dieAt);
    await world.pass();
    expect(gateways(), `died at ${String(dieAt)} of an unplug`).toEqual(["10.0.0.1", "fd00::1"]);
    expect(world.cni.attachments).toEqual([]);
    if (!died && !diedTwice) break;
  }
});
