// SPDX-License-Identifier: Apache-2.0
// Pods by CRI on a containerd whose only CNI plugin is ours, while each participant dies. Needs root, containerd, runc
// and Debian's plugins.
import { mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { names } from "@patchbay/api";
import { TestPodResources } from "@patchbay/device-plugin/testing";
import { eventually } from "@patchbay/support";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { NicDevices, PLUGIN, RESOURCE } from "../nic-devices.ts";
import { RANGE, ThickNode, type Inventory } from "./node.ts";

const TIMEOUT = { withinMs: 20_000 };
let node: ThickNode;
let before: Inventory;

beforeAll(async () => {
  node = await ThickNode.start();
  await node.putNad("blue", [node.cni.bridgePlugin()]);
  await node.putNad("green", [node.cni.layer2Plugin()]);
  await node.putNad("red", [node.cni.bridgePlugin()]);
});
afterAll(() => node.close());
beforeEach(() => {
  before = node.inventory();
});

const anyTextWith = (text: string): string => expect.stringContaining(text) as string;

async function expectTold(name: string, ...networks: readonly string[]): Promise<void> {
  let reported: readonly string[] = [];
  await eventually(async () => {
    reported = await node.told(name);
    return JSON.stringify(reported) === JSON.stringify(networks);
  }, TIMEOUT).catch(() => undefined); // the comparison below shows it
  expect(reported).toEqual(networks);
}

/** Expects no leftovers. */
async function expectAsBefore(): Promise<void> {
  await eventually(
    () => JSON.stringify(node.inventory()) === JSON.stringify(before),
    TIMEOUT,
  ).catch(() => undefined); // the comparison below shows it
  expect(node.inventory()).toEqual(before);
}

test("attaches a pod's networks at creation, changes them while it lives and detaches them, whenever the agent dies", async () => {
  const uid = await node.makePod("one", "blue,green");
  await node.restartAgent();
  const id = await node.runSandbox("one", uid);
  // Reported before the runtime knows it.
  expect(await node.told("one")).toEqual(["everyone eth0", "ns1/blue net1", "ns1/green net2"]);
  expect((await node.networkStatus("one"))[0]).toMatchObject({ default: true });
  expect(await node.nics(id)).toEqual(["eth0", "net1", "net2"]);
  await node.restartAgent();
  await node.sayRunning("one");
  await node.ask("one", "blue,green,red@net3");
  await expectTold("one", "everyone eth0", "ns1/blue net1", "ns1/green net2", "ns1/red net3");
  await node.restartAgent();
  await node.ask("one", '[{"name":"green","interface":"net2"},{"name":"red","interface":"net3"}]');
  await expectTold("one", "everyone eth0", "ns1/green net2", "ns1/red net3");
  expect(await node.nics(id)).toEqual(["eth0", "net2", "net3"]);
  await node.restartAgent();
  await node.removeSandbox(id);
  await node.restartAgent();
  await node.deletePod("one");
  await expectAsBefore();
});

test("while the agent is down no pod starts, and an ending pod waits for it", async () => {
  const uid = await node.makePod("two", "blue");
  const other = await node.makePod("three", "blue");
  const id = await node.runSandbox("two", uid);
  await node.killAgent();
  await expect(node.runSandbox("three", other)).rejects.toThrow(
    /net-agent does not answer .* try again later/,
  );
  await expect(node.runtime.runtime.stopSandbox(id)).rejects.toThrow(/net-agent does not answer/);
  await node.startAgent();
  await node.removeSandbox(id);
  await node.deletePod("two");
  await node.deletePod("three");
  await expectAsBefore();
});

test("a network that fails prevents the pod's sandbox and leaves nothing", async () => {
  const uid = await node.makePod("four", "blue,missing");
  await expect(node.runSandbox("four", uid)).rejects.toThrow(
    /NetworkAttachmentDefinition ns1\/missing/,
  );
  await expectAsBefore();
  await node.ask("four", "blue");
  const id = await node.runSandbox("four", uid, 1);
  expect(await node.told("four")).toEqual(["everyone eth0", "ns1/blue net1"]);
  await node.removeSandbox(id);
  await node.deletePod("four");
  await expectAsBefore();
});

test("replaces a sandbox under its attachments", async () => {
  const uid = await node.makePod("five", "blue");
  const first = await node.runSandbox("five", uid);
  await node.sayRunning("five");
  await node.ask("five", "blue,green@net2");
  await expectTold("five", "everyone eth0", "ns1/blue net1", "ns1/green net2");
  await node.runtime.killSandbox(first);
  const second = await node.runSandbox("five", uid, 1);
  const all = ["everyone eth0", "ns1/blue net1", "ns1/green net2"];
  expect(await node.told("five")).toEqual(all);
  expect(await node.nics(second)).toEqual(["eth0", "net1", "net2"]);
  // Its late DEL does not affect the new sandbox.
  await node.removeSandbox(first);
  expect(await node.told("five")).toEqual(all);
  expect(await node.nics(second)).toEqual(["eth0", "net1", "net2"]);
  await node.removeSandbox(second);
  await node.deletePod("five");
  await expectAsBefore();
});

test("containerd dies during an ADD and forgets the sandbox", async () => {
  node.cni.addPlugin("slow", 'sleep 2; exec /usr/lib/cni/bridge "$@"');
  await node.putNad("late", [{ ...node.cni.bridgePlugin(), type: "slow" }]);
  const uid = await node.makePod("six", "blue,late");
  const cut = node.runSandbox("six", uid).catch((error: unknown) => error);
  await eventually(() => node.inventory().links.length >= before.links.length + 2, TIMEOUT);
  await node.runtime.stop();
  expect(await cut).toBeInstanceOf(Error);
  await node.runtime.start();
  const id = await node.runSandbox("six", uid, 1);
  expect(await node.nics(id)).toEqual(["eth0", "net1", "net2"]);
  expect(node.inventory().links).toHaveLength(before.links.length + 3);
  await node.removeSandbox(id);
  await node.deletePod("six");
  await expectAsBefore();
});

test("removes attachments that the runtime forgot after the pod object is deleted", async () => {
  const uid = await node.makePod("seven", "blue");
  const id = await node.runSandbox("seven", uid);
  await node.killAgent();
  await node.runtime.killSandbox(id);
  await node.deletePod("seven");
  await node.startAgent();
  await expectAsBefore();
  await node.removeSandbox(id);
});

test("the default network changes without a restart and is detached as it was attached", async () => {
  const uid = await node.makePod("eight", "");
  const id = await node.runSandbox("eight", uid);
  node.writeDefaultNetwork("others");
  const other = await node.makePod("nine", "");
  const newer = await node.runSandbox("nine", other);
  expect(await node.told("nine")).toEqual(["others eth0"]);
  expect(await node.told("eight")).toEqual(["everyone eth0"]);
  await node.removeSandbox(id);
  await node.removeSandbox(newer);
  node.writeDefaultNetwork();
  await node.deletePod("eight");
  await node.deletePod("nine");
  await expectAsBefore();
});

test("the runtime's CHECK, STATUS and GC reach the networks' plugins", async () => {
  node.cni.addKeeper();
  const held = join(node.cni.directory, "held");
  mkdirSync(held);
  const keeper = { type: "keeper", dir: held };
  const plugins = [keeper, node.cni.bridgePlugin()];
  node.writeDefaultNetwork("kept", { cniVersion: "1.1.0", plugins });
  const uid = await node.makePod("checked", "green");
  const id = await node.runSandbox("checked", uid);
  await node.sayRunning("checked");
  const call = (command: string, config = {}) =>
    node.callPlugin(command, { name: "checked", uid, id }, config);
  const file = join(held, `${id}.eth0.held`);
  expect(await call("STATUS")).toBeUndefined();
  expect(await call("CHECK")).toBeUndefined();
  writeFileSync(join(held, "down"), "");
  expect(await call("STATUS")).toMatchObject({ code: 50, msg: anyTextWith("it is down") });
  rmSync(join(held, "down"));
  rmSync(file);
  expect(await call("CHECK")).toMatchObject({ code: 100, msg: anyTextWith("eth0 is not held") });
  writeFileSync(file, "");
  writeFileSync(join(held, "nobody.eth0.held"), "");
  mkdirSync(join(node.cni.directory, "cache", "results"), { recursive: true });
  const valid = { "cni.dev/valid-attachments": [{ containerID: id, ifname: "eth0" }] };
  await eventually(async () => {
    expect(await call("GC", valid)).toBeUndefined();
    return readdirSync(held).join() === `${id}.eth0.held`;
  }, TIMEOUT);
  node.writeDefaultNetwork();
  await node.removeSandbox(id);
  await node.deletePod("checked");
  expect(readdirSync(held)).toEqual([]);
  await expectAsBefore();
});

test("a pod's own default network replaces the node's and is detached as it was attached", async () => {
  const ipam = { type: "host-local", dataDir: node.cni.leaseDir, subnet: RANGE };
  await node.putNad("primary", [{ ...node.cni.bridgePlugin(), ipam }]);
  const own = { [names.DEFAULT_NETWORK_ANNOTATION]: "ns1/primary@eth0" };
  const uid = await node.makePod("own", "green", own);
  const id = await node.runSandbox("own", uid);
  expect(await node.told("own")).toEqual(["ns1/primary eth0", "ns1/green net1"]);
  expect((await node.networkStatus("own"))[0]).toMatchObject({ default: true });
  expect(await node.nics(id)).toEqual(["eth0", "net1"]);
  await node.restartAgent();
  await node.removeSandbox(id);
  await node.deletePod("own");
  const bad = { [names.DEFAULT_NETWORK_ANNOTATION]: "ns1/primary@net7" };
  const refused = await node.makePod("bad", "", bad);
  await expect(node.runSandbox("bad", refused)).rejects.toThrow("interface net7 must be eth0");
  await node.deletePod("bad");
  const outside = { [names.DEFAULT_NETWORK_ANNOTATION]: "ns1/blue" };
  const forbidden = await node.makePod("outside", "", outside);
  await expect(node.runSandbox("outside", forbidden)).rejects.toThrow(
    'ipam.ranges[0][0].subnet "10.55.0.0/24", which is in no range',
  );
  await node.deletePod("outside");
  await expectAsBefore();
});

test("a new pod has a device for each resource network, or no sandbox", async () => {
  const nics = new NicDevices(node.cni);
  const devices = nics.make(2);
  const kubelet = new TestPodResources(node.podResourcesSocket);
  for (const [name, input] of [
    ["both", devices],
    ["short", devices.slice(1)],
  ] as const) {
    kubelet.pods.push({ namespace: "ns1", name, containers: [{ [RESOURCE]: input }] });
  }
  await kubelet.start();
  try {
    await node.putNad("fast", [{ type: PLUGIN }], { [names.RESOURCE_NAME_ANNOTATION]: RESOURCE });
    const short = await node.makePod("short", "fast,fast");
    await expect(node.runSandbox("short", short)).rejects.toThrow(
      `the pod has no more devices of ${RESOURCE}: ${String(devices[1])} is of net1`,
    );
    expect(nics.onHost(devices)).toEqual(devices);
    const both = await node.makePod("both", "fast,fast");
    const id = await node.runSandbox("both", both);
    expect(["net1", "net2"].map((nic) => nics.given("ADD", nic).deviceID)).toEqual(devices);
    expect(await node.nics(id)).toEqual(["eth0", "net1", "net2"]);
    await node.restartAgent();
    await node.removeSandbox(id);
    expect(nics.onHost(devices)).toEqual(devices);
  } finally {
    kubelet.close();
  }
  for (const name of ["short", "both"]) await node.deletePod(name);
  await expectAsBefore();
});

test("an agent that stops leaves the runtime configured unless it is uninstalled", async () => {
  await node.killAgent("SIGTERM");
  expect(node.installed()).toEqual(["patchbay-cni", "00-patchbay.conflist"]);
  await node.retireAgent();
  expect(node.installed()).toEqual([]);
});
