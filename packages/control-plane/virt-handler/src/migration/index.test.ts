// SPDX-License-Identifier: Apache-2.0
// A migrating guest's MAC is at one pod NIC at a time, and is announced when networks may know another place.
import { AppError } from "@patchbay/base";
import { afterEach, beforeEach, expect, test } from "vitest";
import { NETNS } from "../testing/bench.ts";
import { TwoNodes } from "../testing/two-nodes.ts";

let nodes: TwoNodes;

beforeEach(async () => {
  nodes = new TwoNodes();
  await nodes.start("node1");
  await nodes.start("node2");
  await nodes.until(async () => (await nodes.vmi()).status?.phase === "Running");
});
afterEach(() => nodes.stopAll());

function sent(): number {
  return nodes.daemon("node1").calls.filter((call) => call.startsWith("migrateDomain")).length;
}

/** The guest's MAC, and whether the pod NIC has it on each node. */
async function heardAt(): Promise<readonly boolean[]> {
  const { interfaces = [] } = (await nodes.vmi()).status ?? {};
  const { mac, podInterfaceName = "" } = interfaces[0] ?? {};
  return (["node1", "node2"] as const).map(
    (node) => nodes.network(node).findLink(NETNS, podInterfaceName)?.mac === mac,
  );
}

test("belongs to the target once the guest runs there, and no longer to the source", async () => {
  nodes.daemon("node1").holdsMoves = true;
  await nodes.open();
  await nodes.until(() => Promise.resolve(sent() === 1));
  expect(await heardAt()).toEqual([true, false]);
  nodes.daemon("node1").endMove("default_vm1", "over");
  await nodes.until(
    async () => (await nodes.migrationState()).targetNodeDomainReadyTimestamp !== undefined,
  );
  await nodes.until(async () => (await heardAt())[0] === false);
  expect(await heardAt()).toEqual([false, true]);
});

test("stays at the source when the guest stays, announced before and afterwards", async () => {
  nodes.daemon("node1").holdsMoves = true;
  await nodes.open();
  await nodes.until(() => Promise.resolve(sent() === 1));
  expect(nodes.network("node1").announced).toHaveLength(1);
  nodes.daemon("node1").endMove("default_vm1", "broken before");
  await nodes.until(async () => (await nodes.migrationState()).failed === true);
  expect(nodes.network("node1").announced).toHaveLength(2);
  expect(nodes.network("node2").announced).toEqual([]);
  expect(await heardAt()).toEqual([true, false]);
});

test("is released by the source until that succeeds, although everything else is done", async () => {
  nodes.daemon("node1").holdsMoves = true;
  await nodes.open();
  await nodes.until(() => Promise.resolve(sent() === 1));
  // The target has received it, and waits.
  nodes.daemon("node2").failAlways("resumeDomain", new AppError("LIBVIRT_TIMED_OUT", {}));
  nodes.network("node1").failNext("wireTap", new AppError("PODNET_FAILED", { message: "no" }));
  nodes.daemon("node1").endMove("default_vm1", "over");
  await nodes.until(async () => (await heardAt())[0] === false);
  expect(await nodes.migrationState()).not.toHaveProperty("targetNodeDomainReadyTimestamp");
});

test("does not delay the guest when its NIC cannot have it yet; the NIC gets it later", async () => {
  nodes.daemon("node1").holdsMoves = true;
  await nodes.open();
  await nodes.until(() => Promise.resolve(sent() === 1));
  nodes.network("node2").failNext("wireTap", new AppError("PODNET_FAILED", { message: "no" }));
  nodes.daemon("node1").endMove("default_vm1", "over");
  await nodes.until(
    async () => (await nodes.migrationState()).targetNodeDomainReadyTimestamp !== undefined,
  );
  await nodes.complete();
  await nodes.until(async () => (await heardAt())[1] === true);
  expect(await nodes.stateOn("node2")).toBe("running");
});
