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
  const serving = { netns: NETNS, nics: [SERVED_NIC], ended: () => ends.push("ended") };
  return { addressServers, clock, node, ends, serving };
}

test("a pod has one server at most, and none for no NIC", async () => {
  const { addressServers, node, ends, serving } = aNode();
  await node.serve("uid-1", serving);
  await node.serve("uid-1", { ...serving, nics: [{ ...SERVED_NIC, mtu: 1300 }] });
  expect(addressServers.count).toBe(1);
  expect(node.served("uid-1")?.[0]?.mtu).toBe(1300);
  await node.serve("uid-1", { ...serving, nics: [] });
  expect([addressServers.count, node.served("uid-1"), ends]).toEqual([0, undefined, []]);
});

test("one that dies is told of; after a short life the next try fails first", async () => {
  const { addressServers, clock, node, ends, serving } = aNode();
  await node.serve("uid-1", serving);
  addressServers.kill("42");
  await Promise.resolve();
  expect([node.served("uid-1"), ends]).toEqual([undefined, ["ended"]]);
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

test("all are ended", async () => {
  const { addressServers, node, serving } = aNode();
  for (const uid of ["uid-1", "uid-2"]) await node.serve(uid, serving);
  await node.stopAll();
  expect(addressServers.count).toBe(0);
});
