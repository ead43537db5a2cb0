// SPDX-License-Identifier: Apache-2.0
// The default routes of a pod go by the attachment that asks for it, and come back when it goes.
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

test("it goes by the attachment, of its family alone, and the status says so", async () => {
  await ask(element("a", "net1", "10.1.0.1"));
  expect(gateways()).toEqual(["10.1.0.1", "fd00::1"]);
  expect(await world.networkStatus()).toMatchObject([{ interface: "net1", gateway: ["10.1.0.1"] }]);
  expect(world.openNamespaces).toBe(0);
});

test("what gave way comes back when the attachment goes", async () => {
  await ask(element("a", "net1", "10.1.0.1", "fd01::1"));
  expect(gateways()).toEqual(["10.1.0.1", "fd01::1"]);
  await ask();
  expect(gateways()).toEqual(["10.0.0.1", "fd00::1"]);
  expect(world.openNamespaces).toBe(0);
});

test("it is handed from one attachment to another, whichever goes first, and back to the cluster's", async () => {
  await ask(element("a", "net1", "10.1.0.1"));
  await ask(element("b", "net2", "10.2.0.1"));
  expect(gateways()).toEqual(["10.2.0.1", "fd00::1"]);
  await ask();
  expect(gateways()).toEqual(["10.0.0.1", "fd00::1"]);
});

test("a gateway that cannot be reached fails the attachment, and leaves the pod its route", async () => {
  const message = 'the kernel refused "route add default via 10.9.9.9 dev net1": ENETUNREACH';
  world.defaultRoutes.failNext("add", new AppError("PODNET_FAILED", { message }));
  expect(await ask(element("a", "net1", "10.9.9.9"))).toEqual({ code: "CNI_REQUEST_NOT_MET" });
  expect(world.cni.attachments).toEqual([]);
  expect(gateways()).toEqual(["10.0.0.1", "fd00::1"]);
  expect(world.notes[0]?.message).toMatch(
    /a default route by 10\.9\.9\.9, which must be reached by an address of the NIC; the network gave net1 no address \(.*ENETUNREACH/,
  );
});

test("a failure that is not the route's is told as it is", async () => {
  world.defaultRoutes.failNext("add", new AppError("OS_FILE_FAILED", { path: "netns" }));
  expect(await ask(element("a", "net1", "10.1.0.1"))).toEqual({ code: "OS_FILE_FAILED" });
});

test("a pod with more routes than anybody has is refused, and keeps them", async () => {
  for (let index = 0; index < 17; index += 1) {
    const gateway = `10.0.7.${String(index)}`;
    world.defaultRoutes.put(INODE, { version: 4, link: "eth0", gateway });
  }
  expect(await ask(element("a", "net1", "10.1.0.1"))).toEqual({ code: "CNI_REQUEST_NOT_MET" });
  expect(gateways()).toHaveLength(19);
  expect(world.cni.attachments).toEqual([]);
});

test("a route that cannot come back holds up no unplug, and is told", async () => {
  await ask(element("a", "net1", "10.1.0.1"));
  world.podNetwork.takeLink(INODE, "eth0");
  await ask();
  expect(world.cni.attachments).toEqual([]);
  expect(world.notes.filter(({ reason }) => reason === "DefaultRouteLost")).toMatchObject([
    { message: expect.stringContaining("default route by 10.0.0.1 at eth0") as string },
  ]);
  expect(await world.errorReasons()).toEqual({});
});

test("a pod that is over has no routes to bring back", async () => {
  await ask(element("a", "net1", "10.1.0.1"));
  world.defaultRoutes.failNext("list", new Error("nobody asks"));
  await world.deletePod();
  expect(await world.pass()).toBeUndefined();
  expect(world.cni.attachments).toEqual([]);
});

describe("it is refused", () => {
  test("to a second element", async () => {
    await ask(element("a", "net1", "10.1.0.1"), element("b", "net2", "fd01::1"));
    expect(await world.errorReasons()).toEqual({ net2: "RequestInvalid" });
    expect(world.notes.at(-1)?.message).toContain(
      "default-route: only one element may ask for it, and that of a does already",
    );
    expect(gateways()).toEqual(["10.1.0.1", "fd00::1"]);
  });

  test("to the launcher of a VM, whose guest has its own", async () => {
    world.putVmi("vmi-1", "a");
    const networks = JSON.stringify([element("a", "net1", "10.1.0.1")]);
    await world.putPod({ networks, launcherOf: "vmi-1" });
    await world.pass();
    expect(await world.errorReasons()).toEqual({ net1: "RequestInvalid" });
    expect(gateways()).toEqual(["10.0.0.1", "fd00::1"]);
  });
});

test("an agent that dies at any call leaves the routes to the next one", async () => {
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
