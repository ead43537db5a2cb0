// SPDX-License-Identifier: Apache-2.0
// Can a NIC be unplugged that the pod's runtime made when the pod was created?
import { names } from "@patchbay/api";
import { beforeEach, describe, expect, test } from "vitest";
import { inodeOf, World } from "../../testing/world.ts";

const MAC = "02:00:00:00:00:0a";
const DEFAULT = { name: "kindnet", interface: "eth0", default: true, dns: {} };
const SIDE = { name: "kube-system/side", interface: "net7", dns: {} };
const MADE = { name: "ns1/a", interface: "net1", mac: MAC, ips: ["10.0.0.9"], dns: {} };

let world: World;

/** As Multus leaves it: NIC and status, and nothing in the agent's journal. */
beforeEach(async () => {
  world = new World();
  world.putNads("a", "b");
  const link = { name: "net1", kind: "macvlan", mac: MAC, mtu: 1500, up: true };
  world.podNetwork.putLink(inodeOf("uid-1"), link);
  const annotations = { [names.NETWORK_STATUS_ANNOTATION]: JSON.stringify([DEFAULT, MADE, SIDE]) };
  await world.putPod({ networks: "a@net1", annotations });
});

/** Lets the agent look until it has nothing more to do by itself. */
async function settle(): Promise<void> {
  while ((await world.nextMs()) !== undefined) await world.sync();
  await world.sync();
}

test("it is left as it is while it is wanted", async () => {
  await settle();
  expect(world.cni.calls).toEqual([]);
  expect(world.store.calls.filter((call) => call.startsWith("patch"))).toEqual([]);
  expect(await world.networkStatus()).toEqual([DEFAULT, MADE, SIDE]);
});

test("the pod's default network is not ours to take, though it has the name of one that is asked for", async () => {
  const main = { name: "ns1/a", interface: "eth0", mac: MAC, default: true, dns: {} };
  const link = { name: "eth0", kind: "veth", mac: MAC, mtu: 1500, up: true };
  world.podNetwork.putLink(inodeOf("uid-1"), link);
  const annotations = { [names.NETWORK_STATUS_ANNOTATION]: JSON.stringify([main]) };
  await world.putPod({ networks: "a@eth0", annotations });
  await world.pass();
  expect(await world.errorReasons()).toEqual({ eth0: "InterfaceNameTaken" });
  await world.putPod({ networks: "" });
  await world.pass();
  expect(world.cni.calls).toEqual([]);
  expect(await world.networkStatus()).toEqual([main]);
});

test("it goes by what libcni remembers of it", async () => {
  const config = { cniVersion: "1.0.0", name: "other", plugins: [{ type: "macvlan" }] };
  const entry = {
    kind: "cniCacheV1",
    containerId: "box-uid-1",
    config: Buffer.from(JSON.stringify(config)).toString("base64"),
    ifName: "net1",
    networkName: "other",
    cniArgs: [["K8S_POD_NAME", "pod"]],
  };
  await world.files.writeAtomic("/cache/results/other-box-uid-1-net1", JSON.stringify(entry));
  await settle();
  const [row] = await world.journal.list("uid-1");
  expect(row?.request).toMatchObject({ config, args: entry.cniArgs, containerId: "box-uid-1" });
  await world.putPod({ networks: "" });
  await settle();
  expect(world.cni.calls).toEqual(["DEL box-uid-1/net1"]);
  expect(await world.networkStatus()).toEqual([DEFAULT, SIDE]);
  expect(await world.journal.listPods()).toEqual([]);
});

test("it goes by its definition where libcni remembers nothing", async () => {
  await settle();
  await world.putPod({ networks: "" });
  await settle();
  expect(world.cni.calls).toEqual(["DEL box-uid-1/net1"]);
  expect(world.podNetwork.findLink(inodeOf("uid-1"), "net1")).toBeUndefined();
});

test("it goes by force where nothing at all is known of it", async () => {
  world.dropNad("ns1/a");
  await settle();
  await world.putPod({ networks: "" });
  await settle();
  expect(world.cni.calls).toEqual(["RELEASE box-uid-1/net1"]);
  expect(world.podNetwork.findLink(inodeOf("uid-1"), "net1")).toBeUndefined();
  expect(await world.networkStatus()).toEqual([DEFAULT, SIDE]);
  expect(world.notes.map(({ reason }) => reason)).toContain("RemovedInterfaceByForce");
});

test("it is swapped for another network", async () => {
  await settle();
  await world.putPod({ networks: "b@net1" });
  await settle();
  expect(world.cni.calls).toEqual(["DEL box-uid-1/net1", "ADD box-uid-1/net1"]);
  expect((await world.networkStatus()).map(({ name }) => name)).toEqual([
    "kindnet",
    "ns1/b",
    "kube-system/side",
  ]);
});

test("its name is not another network's, which is told once; the rest is attached", async () => {
  await world.putPod({ networks: "b@net7,b@net2" });
  await settle();
  expect(world.cni.calls).toEqual(["ADD box-uid-1/net2"]);
  expect(await world.errorReasons()).toEqual({ net7: "InterfaceNameTaken" });
  const told = world.notes.filter(({ reason }) => reason === "InterfaceNameTaken");
  expect(told).toMatchObject([
    {
      type: "Warning",
      about: "net7",
      message: expect.stringContaining("interface net7 belongs to kube-system/side") as string,
    },
  ]);
  expect((await world.networkStatus()).map(({ name }) => name)).toContain("kube-system/side");
});

test("it is left to the runtime when the pod ends", async () => {
  await settle();
  await world.deletePod();
  await settle();
  expect(world.cni.calls).toEqual([]);
  expect(await world.journal.listPods()).toEqual([]);
});

test("in a new sandbox, where the runtime makes it again, it is adopted again", async () => {
  await settle();
  world.dropNamespace("box-uid-1");
  world.putSandbox("uid-1", "box-2");
  const link = { name: "net1", kind: "macvlan", mac: MAC, mtu: 1500, up: true };
  world.podNetwork.putLink("inode-box-2", link);
  await settle();
  expect(world.cni.calls).toEqual([]);
  expect(await world.journal.list("uid-1")).toMatchObject([{ request: { containerId: "box-2" } }]);
  expect(await world.errorReasons()).toEqual({});
});

test("what was hot-plugged and is made by the runtime in a new sandbox stays in the status", async () => {
  await world.putPod({ networks: "a@net1,b@net2" });
  await settle();
  expect(world.cni.calls).toEqual(["ADD box-uid-1/net2"]);
  const again = { name: "ns1/b", interface: "net2", mac: "02:00:00:00:00:0b", dns: {} };
  for (const { interface: name, mac } of [MADE, again]) {
    const link = { name, kind: "macvlan", mac, mtu: 1500, up: true };
    world.podNetwork.putLink("inode-box-2", link);
  }
  const status = [DEFAULT, MADE, again];
  const annotations = { [names.NETWORK_STATUS_ANNOTATION]: JSON.stringify(status) };
  await world.putPod({ networks: "a@net1,b@net2", annotations });
  world.dropNamespace("box-uid-1");
  world.putSandbox("uid-1", "box-2");
  await settle();
  expect(await world.networkStatus()).toEqual(status);
  expect(await world.errorReasons()).toEqual({});
  expect(world.cni.calls).toEqual(["ADD box-uid-1/net2", "DEL box-uid-1/net2"]);
});

describe("what only libcni's cache records", () => {
  async function remember(result: object): Promise<void> {
    const config = { cniVersion: "1.0.0", name: "b", plugins: [{ type: "bridge" }] };
    const entry = {
      kind: "cniCacheV1",
      containerId: "box-uid-1",
      ifName: "net2",
      networkName: "b",
      config: Buffer.from(JSON.stringify(config)).toString("base64"),
      result,
    };
    await world.files.writeAtomic("/cache/results/b-box-uid-1-net2", JSON.stringify(entry));
    await world.putPod({ networks: "a@net1,b@net2" });
  }

  test("is not added a second time where it made no interface, and anew once it was removed", async () => {
    await remember({ cniVersion: "1.0.0", interfaces: [] });
    await settle();
    expect(world.cni.calls).toEqual([]);
    expect(await world.networkStatus()).toEqual([DEFAULT, MADE, SIDE]);
    await world.putPod({ networks: "a@net1" });
    await settle();
    expect(world.cni.calls).toEqual(["DEL box-uid-1/net2"]);
    await world.putPod({ networks: "a@net1,b@net2" });
    await settle();
    expect(world.cni.calls).toEqual(["DEL box-uid-1/net2", "ADD box-uid-1/net2"]);
  });

  test("gets the status entry that was lost", async () => {
    const mac = "02:00:00:00:00:0b";
    world.podNetwork.putLink(inodeOf("uid-1"), {
      name: "net2",
      kind: "macvlan",
      mac,
      mtu: 1500,
      up: true,
    });
    await remember({
      cniVersion: "1.0.0",
      interfaces: [{ name: "net2", mac, sandbox: "/run/netns/box-uid-1" }],
    });
    await settle();
    expect(world.cni.calls).toEqual([]);
    expect(await world.errorReasons()).toEqual({});
    expect(await world.networkStatus()).toMatchObject([
      DEFAULT,
      MADE,
      SIDE,
      { name: "ns1/b", interface: "net2", mac },
    ]);
  });
});

test("what cannot be written down is left alone for a while", async () => {
  await world.continuePass(1);
  expect(await world.journal.list("uid-1")).toEqual([]);
  expect(await world.nextMs()).toBeGreaterThan(500);
  world.nowMs += 1000;
  await settle();
  expect(await world.journal.list("uid-1")).toHaveLength(1);
});

test.each([
  { name: "runs no plugin of a foreign network", count: 3, want: "RELEASE " },
  { name: "is not believed when it is more than a runtime writes", count: 4_000, want: undefined },
])("what a pod's maker wrote into its status $name", async ({ count, want }) => {
  world.putNads("other/secret");
  const status = Array.from({ length: count }, (_unused, index) => ({
    name: "other/secret",
    dns: {},
    interface: `pod${index.toString(16).padStart(11, "0")}`,
  }));
  const annotations = { [names.NETWORK_STATUS_ANNOTATION]: JSON.stringify(status) };
  await world.putPod({ networks: "", annotations });
  await settle();
  expect(world.cni.calls).toHaveLength(want === undefined ? 0 : count);
  expect(world.cni.calls.every((call) => call.startsWith(want ?? ""))).toBe(true);
});

test.each([
  { link: "net1", networks: "evil@net1" },
  { link: "pod0123456789a", networks: "" },
])(
  "a definition that names what it may not is not run by a status that names $link",
  async ({ link, networks }) => {
    world.policy = { ...world.policy, trustedNamespaces: ["default"] };
    world.putNad({ namespace: "ns1", name: "evil" }, { type: "host-device", device: "eth0" });
    const status = JSON.stringify([{ name: "ns1/evil", interface: link, dns: {} }]);
    const annotations = { [names.NETWORK_STATUS_ANNOTATION]: status };
    await world.putPod({ networks, annotations });
    for (let pass = 0; pass < 3; pass += 1) await world.continuePass();
    await world.putPod({ networks: "" });
    for (let pass = 0; pass < 3; pass += 1) await world.continuePass();
    expect(world.requests).toEqual([]);
    expect(world.cni.calls).toEqual([`RELEASE box-uid-1/${link}`]);
  },
);

test("a launcher's NIC whose last network went from the list while nobody looked goes too", async () => {
  const orphan = { ...MADE, interface: "pod0123456789a" };
  const link = { name: orphan.interface, kind: "veth", mac: MAC, mtu: 1500, up: true };
  world.podNetwork.putLink(inodeOf("uid-1"), link);
  const annotations = { [names.NETWORK_STATUS_ANNOTATION]: JSON.stringify([DEFAULT, orphan]) };
  await world.putPod({ networks: "", annotations });
  await settle();
  expect(world.cni.calls).toEqual(["DEL box-uid-1/pod0123456789a"]);
  expect(await world.networkStatus()).toEqual([DEFAULT]);
});
