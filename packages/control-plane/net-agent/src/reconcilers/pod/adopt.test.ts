// SPDX-License-Identifier: Apache-2.0
// Adoption of NICs that the pod's runtime attached at pod creation.
import { names } from "@patchbay/api";
import type { NetworkStatus } from "@patchbay/api/annotations";
import { beforeEach, describe, expect, test } from "vitest";
import { inodeOf, World } from "../../testing/world.ts";

const MAC = "02:00:00:00:00:0a";
const DEFAULT = { name: "kindnet", interface: "eth0", default: true, dns: {} };
const SIDE = { name: "kube-system/side", interface: "net7", dns: {} };
const MADE = { name: "ns1/a", interface: "net1", mac: MAC, ips: ["10.0.0.9"], dns: {} };

let world: World;

/** Like after Multus: NIC and status exist, and the agent's journal is empty. */
beforeEach(async () => {
  world = new World();
  world.putNads("a", "b");
  const link = { name: "net1", kind: "macvlan", mac: MAC, mtu: 1500, up: true };
  world.podNetwork.putLink(inodeOf("uid-1"), link);
  const annotations = { [names.NETWORK_STATUS_ANNOTATION]: JSON.stringify([DEFAULT, MADE, SIDE]) };
  await world.putPod({ networks: "a@net1", annotations });
});

/** Runs passes until the agent waits for a change. */
async function settle(): Promise<void> {
  for (let pass = 0; pass < 20; pass += 1) {
    const nextMs = await world.nextMs();
    await world.sync();
    if (nextMs === undefined) return;
  }
  throw new Error(`the agent does not settle: ${JSON.stringify(await world.errorReasons())}`);
}

test("stays unchanged while the annotation requests it", async () => {
  await settle();
  expect(world.cni.calls).toEqual([]);
  expect(world.store.calls.filter((call) => call.startsWith("patch"))).toEqual([]);
  expect(await world.networkStatus()).toEqual([DEFAULT, MADE, SIDE]);
});

test("does not adopt the default network, even if a requested network has its name", async () => {
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

test("is detached with the configuration in libcni's cache", async () => {
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

test("is detached with its definition when libcni's cache has no entry", async () => {
  await settle();
  await world.putPod({ networks: "" });
  await settle();
  expect(world.cni.calls).toEqual(["DEL box-uid-1/net1"]);
  expect(world.podNetwork.findLink(inodeOf("uid-1"), "net1")).toBeUndefined();
});

test("is removed without a plugin when no configuration is known", async () => {
  world.dropNad("ns1/a");
  await settle();
  await world.putPod({ networks: "" });
  await settle();
  expect(world.cni.calls).toEqual(["RELEASE box-uid-1/net1"]);
  expect(world.podNetwork.findLink(inodeOf("uid-1"), "net1")).toBeUndefined();
  expect(await world.networkStatus()).toEqual([DEFAULT, SIDE]);
  expect(world.notes.map(({ reason }) => reason)).toContain("RemovedInterfaceByForce");
});

test("is swapped for another network", async () => {
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

test("blocks its interface name for another network, reported once; other networks are attached", async () => {
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

test("is not detached when the pod ends, because the runtime does that", async () => {
  await settle();
  await world.deletePod();
  await settle();
  expect(world.cni.calls).toEqual([]);
  expect(await world.journal.listPods()).toEqual([]);
});

test("is adopted again in a new sandbox, where the runtime attaches it again", async () => {
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

test("retains the status entry of a hot-plugged network that the runtime attaches in a new sandbox", async () => {
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

describe("in a new sandbox, whose status the runtime writes at any time", () => {
  const NEW_MAC = "02:00:00:00:00:1a";
  const again = (nic: string): NetworkStatus => ({
    name: "ns1/b",
    interface: nic,
    mac: NEW_MAC,
    dns: {},
  });

  /** Ends the former sandbox, in which the agent attached the networks. Multus creates the NICs in the new sandbox. */
  async function replaceSandbox(networks: string, nics: readonly string[]): Promise<void> {
    await world.putPod({ networks, annotations: { [names.NETWORK_STATUS_ANNOTATION]: "[]" } });
    await settle();
    world.dropNamespace("box-uid-1");
    world.sandboxes.take("uid-1");
    for (const name of nics) {
      const link = { name, kind: "macvlan", mac: NEW_MAC, mtu: 1500, up: true };
      world.podNetwork.putLink("inode-box-2", link);
    }
  }

  /** Writes the pod's networks, and Multus' status with these NICs. The runtime then lists the new sandbox if `isListed`. */
  function change(networks: string, nics: readonly string[], isListed = true): void {
    const status = JSON.stringify([DEFAULT, ...nics.map(again)]);
    const annotations = { [names.NETWORK_STATUS_ANNOTATION]: status };
    void world.putPod({ networks, annotations });
    world.sandboxes.take("uid-1");
    if (isListed) world.putSandbox("uid-1", "box-2");
  }

  /** Returns the journal's NICs. */
  async function listAdopted(): Promise<readonly string[]> {
    const rows = await world.journal.list("uid-1");
    expect(rows.every(({ isAdopted }) => isAdopted)).toBe(true);
    return rows.map(({ request }) => request.interfaceName).toSorted();
  }

  test("adopts NICs although the pass that finds the sandbox has read an older status", async () => {
    const networks = "b@net3,b@net2";
    await replaceSandbox(networks, ["net3", "net2"]);
    world.putSandbox("uid-1", "box-2");
    world.store.beforeNextWrite(() => {
      change(networks, ["net3", "net2"]);
    });
    await settle();
    expect(await world.networkStatus()).toEqual([DEFAULT, again("net3"), again("net2")]);
    expect(await world.errorReasons()).toEqual({});
    expect(await listAdopted()).toEqual(["net2", "net3"]);
  });

  test("adopts NICs although it finds the status before the runtime lists the sandbox", async () => {
    const networks = "b@net3,b@net2";
    await replaceSandbox(networks, ["net3", "net2"]);
    change(networks, ["net3", "net2"], false);
    expect(await world.continuePass()).toMatchObject({ code: "SANDBOX_NOT_FOUND" });
    expect(await world.networkStatus()).toEqual([DEFAULT, again("net3"), again("net2")]);
    world.putSandbox("uid-1", "box-2");
    await settle();
    expect(await listAdopted()).toEqual(["net2", "net3"]);
  });

  test.each([
    { name: "retains a NIC of the user that", nic: "net2", want: ["net3", "net2"], calls: [] },
    {
      name: "detaches a launcher's NIC that",
      nic: "pod0123456789a",
      want: ["net3"],
      calls: ["DEL box-2/pod0123456789a"],
    },
  ])("$name is no longer requested before its adoption", async ({ nic, want, calls }) => {
    await replaceSandbox(`b@net3,b@${nic}`, ["net3", nic]);
    const before = world.cni.calls.length;
    world.store.beforeNextWrite(() => {
      change("b@net3", ["net3", nic]);
    });
    // Finds no sandbox, and then an unexpected status.
    expect(await world.continuePass()).toMatchObject({ code: "KUBE_CONFLICT" });
    await settle();
    expect(await world.networkStatus()).toEqual([DEFAULT, ...want.map(again)]);
    const released = [nic, "net3"].map((name) => `DEL box-uid-1/${name}`);
    expect(world.cni.calls.slice(before)).toEqual([...released, ...calls]);
    expect(await listAdopted()).toEqual(["net3"]);
  });

  test("retains no entry of the former sandbox", async () => {
    await replaceSandbox("b@net3,b@net2", ["net3"]);
    change("b@net3", ["net3", "net2"]);
    await settle();
    expect(await world.networkStatus()).toEqual([DEFAULT, again("net3")]);
  });
});

describe("an attachment that only libcni's cache records", () => {
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

  test("is not added twice if it made no interface, and is added again after its removal", async () => {
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

  test("restores the lost status entry", async () => {
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

test("backs off when the journal cannot be written", async () => {
  await world.continuePass(1);
  expect(await world.journal.list("uid-1")).toEqual([]);
  expect(await world.nextMs()).toBeGreaterThan(500);
  world.nowMs += 1000;
  await settle();
  expect(await world.journal.list("uid-1")).toHaveLength(1);
});

test.each([
  { name: "runs no plugin of a foreign network", count: 3, want: "RELEASE " },
  { name: "ignores a status larger than a runtime writes", count: 4_000, want: undefined },
])("handles a status forged by the pod's author: $name", async ({ count, want }) => {
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
  "does not run a forbidden definition because a forged status names $link",
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

test("detaches a launcher's NIC whose network was removed from the list while the agent was down", async () => {
  const orphan = { ...MADE, interface: "pod0123456789a" };
  const link = { name: orphan.interface, kind: "veth", mac: MAC, mtu: 1500, up: true };
  world.podNetwork.putLink(inodeOf("uid-1"), link);
  const annotations = { [names.NETWORK_STATUS_ANNOTATION]: JSON.stringify([DEFAULT, orphan]) };
  await world.putPod({ networks: "", annotations });
  await settle();
  expect(world.cni.calls).toEqual(["DEL box-uid-1/pod0123456789a"]);
  expect(await world.networkStatus()).toEqual([DEFAULT]);
});
