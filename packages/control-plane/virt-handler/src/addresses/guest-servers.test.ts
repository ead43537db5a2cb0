// SPDX-License-Identifier: Apache-2.0
import { createFakeClock } from "@patchbay/os/testing";
import { createFakeAddressServers, SERVED_NIC } from "@patchbay/podnet/testing";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { expect, test } from "vitest";
import { createGuestServers } from "./guest-servers.ts";

const NETNS = { fd: 8, inode: "42" };

function aNode() {
  const addressServers = createFakeAddressServers();
  const clock = createFakeClock();
  const node = createGuestServers({ addressServers, clock, log: createFakeLogger() });
  const ends: string[] = [];
  const serving = { netns: NETNS, nic: SERVED_NIC, onEnd: () => ends.push("ended") };
  return { addressServers, clock, node, ends, serving };
}

const OTHER = { ...SERVED_NIC, iface: "b", bridgeName: "k6t-beef", mac: "02:00:00:00:5e:02" };

test("runs at most one server for a NIC, and replaces it", async () => {
  const { addressServers, node, ends, serving } = aNode();
  await node.serve("uid-1", serving);
  await node.serve("uid-1", { ...serving, nic: { ...SERVED_NIC, mtu: 1300 } });
  expect(addressServers.count).toBe(1);
  expect(node.listServed("uid-1").map(({ mtu }) => mtu)).toEqual([1300]);
  await node.stopOnBridge("uid-1", SERVED_NIC.bridgeName);
  expect([addressServers.count, node.listServed("uid-1"), ends]).toEqual([0, [], []]);
});

test("serves a pod's NICs independently", async () => {
  const { addressServers, node, ends, serving } = aNode();
  await node.serve("uid-1", serving);
  addressServers.failNext(new Error("bad options"));
  await expect(node.serve("uid-1", { ...serving, nic: OTHER })).rejects.toThrow("bad options");
  expect(node.listServed("uid-1")).toEqual([SERVED_NIC]);
  await node.serve("uid-1", { ...serving, nic: OTHER });
  await node.stopOnBridge("uid-1", SERVED_NIC.bridgeName);
  expect([node.listServed("uid-1"), ends]).toEqual([[OTHER], []]);
});

test("stops a server that starts while its pod is stopped", async () => {
  const { addressServers, node, serving } = aNode();
  const started = node.serve("uid-1", serving);
  await node.stop("uid-1");
  await started;
  expect([addressServers.count, node.listServed("uid-1")]).toEqual([0, []]);
});

test("reports a server that ended; after a short life the next start fails first", async () => {
  const { addressServers, clock, node, ends, serving } = aNode();
  await node.serve("uid-1", serving);
  addressServers.kill("42");
  await Promise.resolve();
  expect([node.listServed("uid-1"), ends]).toEqual([[], ["ended"]]);
  await expect(node.serve("uid-1", serving)).rejects.toMatchObject({
    code: "PODNET_ADDRESS_SERVER_FAILED",
  });
  await node.serve("uid-1", serving);
  await clock.advance(10_000);
  addressServers.kill("42");
  await Promise.resolve();
  await node.serve("uid-1", serving);
  expect(addressServers.count).toBe(1);
});

test("stops all servers", async () => {
  const { addressServers, node, serving } = aNode();
  for (const uid of ["uid-1", "uid-2"]) await node.serve(uid, serving);
  await node.stopAll();
  expect(addressServers.count).toBe(0);
});
