// SPDX-License-Identifier: Apache-2.0
// Requests of pods: networks of other namespaces, MACs that plugins cannot set, and unsupported attributes.
import { AppError } from "@patchbay/base";
import { describe, expect, test } from "vitest";
import { World } from "../../testing/world.ts";

const MAC = "02:00:00:00:00:01";

async function interfacesOf(world: World): Promise<readonly string[]> {
  return (await world.networkStatus()).map((entry) => `${entry.name}@${entry.interface ?? ""}`);
}

describe("a network of another namespace", () => {
  const LAUNCHER = { networks: "other/a", launcherOf: "vmi-1" };

  test.each([
    { name: "is rejected", sketch: { networks: "other/a" }, want: { net1: "NetworkForbidden" } },
    { name: "is attached if all tenants may use it", sketch: { networks: "default/a" }, want: {} },
    { name: "is attached to a launcher whose VMI names it", sketch: LAUNCHER, want: {} },
    {
      name: "is rejected for a launcher whose VMI does not name it",
      sketch: { ...LAUNCHER, networks: "other/b" },
      want: { net1: "NetworkForbidden" },
    },
    {
      name: "is rejected for a pod that names a recreated VMI",
      sketch: { ...LAUNCHER, launcherOf: "vmi-2" },
      want: { net1: "NetworkForbidden" },
    },
    {
      name: "is rejected for a pod that its VMI does not control",
      sketch: { ...LAUNCHER, owner: { controller: false } },
      want: { net1: "NetworkForbidden" },
    },
    {
      name: "is rejected for a pod of a VMI of another API group",
      sketch: { ...LAUNCHER, owner: { apiVersion: "other.io/v1" } },
      want: { net1: "NetworkForbidden" },
    },
    {
      name: "is rejected for a pod of another owner",
      sketch: { ...LAUNCHER, owner: { kind: "ReplicaSet" } },
      want: { net1: "NetworkForbidden" },
    },
    {
      name: "is rejected for a launcher whose VMI is missing",
      sketch: { ...LAUNCHER, owner: { name: "vm2" } },
      want: { net1: "NetworkForbidden" },
    },
  ])("$name", async ({ sketch, want }) => {
    const world = new World();
    world.putNads("other/a", "other/b", "default/a");
    world.putVmi("vmi-1", "other/a");
    await world.putPod(sketch);
    await world.pass();
    expect(await world.errorReasons()).toEqual(want);
    expect(world.cni.attachments).toHaveLength(Object.keys(want).length === 0 ? 1 : 0);
  });

  test("is rejected without KubeVirt's kinds", async () => {
    const world = new World();
    world.putNads("other/a");
    world.hasKubeVirt = false;
    await world.putPod(LAUNCHER);
    await world.pass();
    expect(await world.errorReasons()).toEqual({ net1: "NetworkForbidden" });
    expect(world.notes[0]?.message).toContain("other/a");
    expect(world.notes[0]?.message).toContain("ns1");
  });

  test("waits while the VMI cannot be read", async () => {
    const world = new World();
    world.putNads("other/a");
    world.hasKubeVirt = false;
    world.storeError = new AppError("KUBE_UNREACHABLE", { reason: "no" });
    await world.putPod(LAUNCHER);
    await world.pass();
    expect(await world.errorReasons()).toEqual({ net1: "CniFailed" });
  });

  test("is allowed without isolation, and needs no read", async () => {
    const world = new World();
    world.putNads("other/a");
    world.isIsolated = false;
    await world.putPod({ networks: "other/a" });
    expect(await world.pass()).toBeUndefined();
    expect(await interfacesOf(world)).toEqual(["other/a@net1"]);
    expect(world.store.calls.filter((call) => call.startsWith("get virtualmachine"))).toEqual([]);
  });
});

describe("a MAC that the plugin cannot set", () => {
  const networks = `[{"name":"fixed","mac":"${MAC}"}]`;

  function aWorldWithPtp(): World {
    const world = new World();
    world.putNad({ namespace: "ns1", name: "fixed" }, { cniVersion: "1.0.0", type: "ptp" });
    world.putVmi("vmi-1");
    world.cni.ignoreMacs();
    return world;
  }

  test("fails the attachment of an ordinary pod", async () => {
    const world = aWorldWithPtp();
    await world.putPod({ networks });
    expect(await world.pass()).toMatchObject({ code: "CNI_REQUEST_NOT_MET" });
    expect(await world.errorReasons()).toEqual({ net1: "RequestNotMet" });
    expect(world.cni.attachments).toEqual([]);
  });

  test("is accepted for a launcher, because virt-handler's wiring sets it", async () => {
    const world = aWorldWithPtp();
    await world.putPod({ networks, launcherOf: "vmi-1" });
    expect(await world.pass()).toBeUndefined();
    expect(await interfacesOf(world)).toEqual(["ns1/fixed@net1"]);
    expect(await world.pass()).toBeUndefined();
    expect(world.cni.calls).toHaveLength(1);
  });
});

test.each([
  { asked: "0200.0000.0001", given: MAC },
  { asked: "02-00-00-00-00-01", given: MAC },
])("treats MAC $asked as equal to $given", async ({ asked, given }) => {
  const world = new World();
  world.putNads("a");
  await world.putPod({ networks: `[{"name":"a","mac":"${asked}"}]` });
  expect(await world.pass()).toBeUndefined();
  expect(await world.networkStatus()).toMatchObject([{ mac: given }]);
  await world.putPod({ networks: `[{"name":"a","mac":"${given.toUpperCase()}"}]` });
  expect(await world.pass()).toBeUndefined();
  expect(await world.errorReasons()).toEqual({});
});

test.each([
  {
    name: "a default route without a gateway",
    element: { "default-route": [] },
    want: "RequestInvalid",
  },
  { name: "deviceID", element: { deviceID: "0000:00:00.1" }, want: "NoDevice" },
  {
    name: "portMappings that no plugin supports",
    element: { portMappings: [{ hostPort: 80, containerPort: 80 }] },
    want: "RequestNotMet",
  },
])("rejects an unsupported request: $name", async ({ element, want }) => {
  const world = new World();
  world.putNads("a");
  await world.putPod({ networks: JSON.stringify([{ name: "a", ...element }]) });
  await world.pass();
  expect(await world.errorReasons()).toEqual({ net1: want });
  expect(world.cni.calls).toEqual([]);
});

test("passes what a plugin declares to support", async () => {
  const world = new World();
  const capabilities = { portMappings: true, bandwidth: true };
  world.putNad({ namespace: "ns1", name: "a" }, { type: "portmap", capabilities });
  const asked = { portMappings: [{ hostPort: 80, containerPort: 80 }] };
  await world.putPod({ networks: JSON.stringify([{ name: "a", ...asked }]) });
  expect(await world.pass()).toBeUndefined();
  const [row] = await world.journal.list("uid-1");
  expect(row?.request.capabilityArgs).toEqual(asked);
});

test("reports changes of an attached element, retains it, and clears the error after a revert", async () => {
  const world = new World();
  world.putNads("a");
  const ask = async (more: object): Promise<void> => {
    await world.putPod({ networks: JSON.stringify([{ name: "a", interface: "net1", ...more }]) });
    await world.pass();
  };
  const before = { "default-route": ["10.1.0.1"], "cni-args": { tag: "x" } };
  await ask(before);
  expect(await world.errorReasons()).toEqual({});
  await ask({ ...before, "default-route": ["10.1.0.9"], ips: ["10.1.0.7/24"] });
  expect(await world.errorReasons()).toEqual({ net1: "AttributesFixed" });
  expect(world.notes.at(-1)).toMatchObject({
    reason: "AttributesFixed",
    message:
      "interface net1 was attached with different ips, default-route and is not changed; unplug it and plug it again to apply the change",
  });
  expect(world.cni.calls).toEqual(["ADD box-uid-1/net1"]);
  await ask(before);
  expect(await world.errorReasons()).toEqual({});
});

describe("an edit of a network's definition", () => {
  const network = { namespace: "ns1", name: "a" };

  test("is reported while the pod uses the former one, and not after it is undone", async () => {
    const world = new World();
    world.putNad(network, { cniVersion: "1.0.0", type: "bridge", bridge: "br7" });
    await world.putPod({ networks: "a" });
    expect(await world.pass()).toBeUndefined();
    world.putNad(network, { cniVersion: "1.0.0", type: "bridge", bridge: "br8", mtu: 1400 });
    expect(await world.pass()).toBeUndefined();
    expect(await world.errorReasons()).toEqual({ net1: "NetworkChanged" });
    expect(world.cni.calls).toHaveLength(1);
    expect(world.notes.at(-1)).toMatchObject({
      reason: "NetworkChanged",
      message: expect.stringContaining("plugins[0].bridge, plugins[0].mtu") as string,
    });
    world.putNad(network, { cniVersion: "1.0.0", type: "bridge", bridge: "br7" });
    expect(await world.pass()).toBeUndefined();
    expect(await world.errorReasons()).toEqual({});
  });

  test("does not matter if the definition was deleted or is invalid", async () => {
    const world = new World();
    world.putNads("a");
    await world.putPod({ networks: "a" });
    expect(await world.pass()).toBeUndefined();
    world.putNad(network, { cniVersion: "1.0.0" });
    expect(await world.pass()).toBeUndefined();
    expect(await world.errorReasons()).toEqual({});
  });
});
