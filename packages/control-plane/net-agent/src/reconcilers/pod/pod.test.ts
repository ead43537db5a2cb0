// SPDX-License-Identifier: Apache-2.0
import { names, PODS } from "@patchbay/api";
import { AppError } from "@patchbay/base";
import { describe, expect, test } from "vitest";
import { inodeOf, World } from "../../testing/world.ts";

const MAC = "02:00:00:00:00:01";
const FOREIGN = [{ name: "kindnet", interface: "eth0", default: true, dns: {} }];

/** A node with networks a and b, and the pod. */
async function aWorld(networks?: string): Promise<World> {
  const world = new World();
  world.putNads("a", "b");
  await world.putPod(networks === undefined ? {} : { networks });
  return world;
}

async function interfacesOf(world: World): Promise<readonly string[]> {
  return (await world.networkStatus()).map((entry) => `${entry.name}@${entry.interface ?? ""}`);
}

describe("a running pod", () => {
  test("gets the requested networks in order, and reports them", async () => {
    const world = await aWorld(`[{"name":"b","interface":"net7","mac":"${MAC}"},{"name":"a"}]`);
    expect(await world.pass()).toBeUndefined();
    expect(world.cni.attachments).toEqual(["box-uid-1/net7", "box-uid-1/net2"]);
    expect(await world.networkStatus()).toEqual([
      { name: "ns1/b", interface: "net7", mac: MAC, dns: {} },
      { name: "ns1/a", interface: "net2", mac: expect.any(String) as string, dns: {} },
    ]);
    expect(world.notes.map((note) => note.reason)).toEqual(["AddedInterface", "AddedInterface"]);
    expect(await world.errorReasons()).toEqual({});
  });

  test("needs one write per change, and none at rest", async () => {
    const world = await aWorld("a,b");
    await world.pass();
    const before = world.store.calls.length;
    await world.pass();
    const since = world.store.calls.slice(before).filter((call) => !call.startsWith("list"));
    expect(since).toEqual([]);
    expect(world.store.calls.filter((call) => call.startsWith("patch"))).toHaveLength(1);
    expect(world.cni.calls).toHaveLength(2);
  });

  test("reports the gateways that CNI returned until their NIC is detached", async () => {
    const world = await aWorld("c,b");
    const config = { cniVersion: "1.0.0", type: "bridge", gateway: "10.9.0.254" };
    world.putNad({ namespace: "ns1", name: "c" }, config);
    await world.pass();
    const gateways = () => world.annotation(names.CNI_GATEWAYS_ANNOTATION);
    expect(await gateways()).toBe('{"net1":["10.9.0.254"]}');
    await world.putPod({ networks: "b@net2" });
    await world.pass();
    expect(await gateways()).toBeUndefined();
  });

  test("is named in the plugins' arguments", async () => {
    const world = await aWorld(`[{"name":"a","mac":"${MAC}","cni-args":{"x":1}}]`);
    await world.pass();
    const [row] = await world.journal.list("uid-1");
    expect(row?.request.args).toEqual([
      ["IgnoreUnknown", "1"],
      ["K8S_POD_NAMESPACE", "ns1"],
      ["K8S_POD_NAME", "pod"],
      ["K8S_POD_INFRA_CONTAINER_ID", "box-uid-1"],
      ["K8S_POD_UID", "uid-1"],
      ["MAC", MAC],
    ]);
    expect(row?.request.config.plugins[0]).toMatchObject({ args: { cni: { x: 1 } } });
  });

  test("loses networks that it no longer requests; foreign status entries stay in place", async () => {
    const status = JSON.stringify([...FOREIGN, { name: "x/y", interface: "foreign1" }]);
    const world = await aWorld();
    const annotations = { [names.NETWORK_STATUS_ANNOTATION]: status };
    await world.putPod({ networks: "a,b", annotations });
    await world.pass();
    await world.putPod({ networks: "b@net2" });
    await world.pass();
    expect(await interfacesOf(world)).toEqual(["kindnet@eth0", "x/y@foreign1", "ns1/b@net2"]);
    expect(world.cni.attachments).toEqual(["box-uid-1/net2"]);
    expect(await world.journal.list("uid-1")).toHaveLength(1);
  });

  test("is swapped to another network under the same interface name", async () => {
    const world = await aWorld("a@net1");
    await world.pass();
    await world.putPod({ networks: "b@net1" });
    expect(await world.pass()).toBeUndefined();
    expect(world.cni.calls.slice(1)).toEqual(["DEL box-uid-1/net1", "ADD box-uid-1/net1"]);
    expect(await interfacesOf(world)).toEqual(["ns1/b@net1"]);
  });

  test("stays unchanged when its annotation is unreadable", async () => {
    const world = await aWorld("a");
    await world.pass();
    await world.putPod({ networks: "[null]" });
    expect(await world.pass()).toBeUndefined();
    expect(world.cni.attachments).toEqual(["box-uid-1/net1"]);
    expect(await interfacesOf(world)).toEqual(["ns1/a@net1"]);
    expect(await world.errorReasons()).toEqual({ "": "AnnotationInvalid" });
  });

  test.each([
    { name: "pending, as its own changes wake the agent", sketch: { phase: "Pending" as const } },
    { name: "finished, as it has no attachments", sketch: { phase: "Succeeded" as const } },
    {
      name: "being deleted after its containers have ended",
      sketch: { isDeleting: true, ended: [true, true] },
    },
  ])("stays unchanged without a sandbox while it is $name", async ({ sketch }) => {
    const world = await aWorld();
    await world.putPod({ networks: "a", ...sketch });
    world.sandboxes.take("uid-1");
    expect(await world.pass()).toBeUndefined();
    expect(world.cni.calls).toEqual([]);
    expect(await world.errorReasons()).toEqual({});
  });

  test("gets an error when it uses the host network, with or without a sandbox", async () => {
    const world = await aWorld();
    await world.putPod({ networks: "a", hostNetwork: true });
    world.sandboxes.take("uid-1");
    expect(await world.pass()).toBeUndefined();
    expect(await world.errorReasons()).toEqual({ "": "HostNetwork" });
  });

  test("waits for a sandbox", async () => {
    const world = await aWorld("a");
    world.sandboxes.take("uid-1");
    expect(await world.pass()).toMatchObject({
      code: "SANDBOX_NOT_FOUND",
      details: { pod: "ns1/pod" },
    });
    expect(world.cni.calls).toEqual([]);
  });

  test("waits for the container runtime and reports it once", async () => {
    const world = await aWorld("a");
    const away = new AppError("CRI_UNAVAILABLE", { endpoint: "unix:///x", reason: "refused" });
    world.runtimeError = away;
    expect(await world.pass()).toMatchObject({ code: "CRI_UNAVAILABLE" });
    expect(await world.continuePass()).toMatchObject({ code: "CRI_UNAVAILABLE" });
    expect(world.notes).toMatchObject([
      {
        type: "Warning",
        reason: "RuntimeUnavailable",
        message: expect.stringMatching(
          /at unix:\/\/\/x \(CRI_UNAVAILABLE\): refused; the call is retried/,
        ) as string,
      },
    ]);
    expect(await world.errorReasons()).toEqual({ net1: "RuntimeUnavailable" });
    world.runtimeError = undefined;
    expect(await world.continuePass()).toBeUndefined();
    expect(world.cni.calls).toEqual(["ADD box-uid-1/net1"]);
    expect(await world.errorReasons()).toEqual({});
  });

  test("keeps its attachments while the runtime is unavailable, and reports what waits", async () => {
    const world = await aWorld("a");
    await world.pass();
    const before = await interfacesOf(world);
    world.runtimeError = new AppError("CRI_TIMED_OUT", { call: "ListPodSandbox", timeoutMs: 1 });
    expect(await world.continuePass()).toMatchObject({ code: "CRI_TIMED_OUT" });
    expect(await world.errorReasons()).toEqual({});
    await world.putPod({ networks: "b@net2" });
    expect(await world.continuePass()).toMatchObject({ code: "CRI_TIMED_OUT" });
    expect(await world.errorReasons()).toEqual({
      net1: "RuntimeUnavailable",
      net2: "RuntimeUnavailable",
    });
    expect(await interfacesOf(world)).toEqual(before);
    expect(world.cni.calls).toEqual(["ADD box-uid-1/net1"]);
  });

  test("ignores a sandbox with its uid that belongs to another pod", async () => {
    const world = await aWorld("a");
    const pod = { namespace: "ns1", name: "other" };
    const netns = { netnsPath: "/run/netns/box-uid-1", netnsInode: inodeOf("uid-1") };
    world.sandboxes.put({ id: "box-uid-1", podUid: "uid-1", pod, ...netns });
    expect(await world.pass()).toMatchObject({ code: "SANDBOX_NOT_FOUND" });
    expect(world.cni.calls).toEqual([]);
  });

  test("gets everything again in a new sandbox, and the old leases are released", async () => {
    const world = await aWorld("a");
    await world.pass();
    world.dropNamespace("box-uid-1");
    world.putSandbox("uid-1", "box-2");
    expect(await world.pass()).toBeUndefined();
    expect(world.cni.attachments).toEqual(["box-2/net1"]);
    expect(await interfacesOf(world)).toEqual(["ns1/a@net1"]);
    expect(await world.journal.list("uid-1")).toHaveLength(1);
  });

  test.each([
    {
      name: "the sandbox has ended",
      phase: "Running" as const,
      bootId: "boot-1",
      isServing: false,
    },
    { name: "the node has booted", phase: "Pending" as const, bootId: "boot-2", isServing: true },
  ])("has its leases released before it has a new sandbox: $name", async (given) => {
    const { phase, bootId, isServing } = given;
    const world = await aWorld("a");
    await world.pass();
    if (isServing) world.readDefaultNetwork = () => Promise.reject(new Error("not used"));
    world.bootId = bootId;
    await world.putPod({ networks: "a", phase });
    world.dropNamespace("box-uid-1");
    world.sandboxes.take("uid-1");
    const error = phase === "Running" ? { code: "SANDBOX_NOT_FOUND" } : {};
    expect((await world.pass()) ?? {}).toMatchObject(error);
    expect(world.cni.calls).toEqual(["ADD box-uid-1/net1", "DEL box-uid-1/net1"]);
    expect(world.requests.at(-1)?.request.netnsPath).toBeUndefined();
    expect(await interfacesOf(world)).toEqual([]);
    expect(await world.journal.listPods()).toEqual([]);
    world.putSandbox("uid-1", "box-2");
    await world.putPod({ networks: "a", phase: "Pending" });
    expect(await world.pass()).toBeUndefined();
    expect(world.cni.attachments).toEqual(["box-2/net1"]);
  });

  test("keeps its leases while the runtime runs a sandbox whose namespace is hidden", async () => {
    const world = await aWorld("a");
    await world.pass();
    world.hidesSandboxes = true;
    expect(await world.pass()).toMatchObject({ code: "SANDBOX_NOT_FOUND" });
    expect(world.cni.calls).toEqual(["ADD box-uid-1/net1"]);
    expect(await interfacesOf(world)).toEqual(["ns1/a@net1"]);
  });

  test("keeps its leases while the agent serves a runtime that may be creating the sandbox", async () => {
    const world = await aWorld("a");
    await world.pass();
    world.readDefaultNetwork = () => Promise.reject(new Error("not used"));
    world.sandboxes.take("uid-1");
    expect(await world.pass()).toMatchObject({ code: "SANDBOX_NOT_FOUND" });
    expect(world.cni.calls).toEqual(["ADD box-uid-1/net1"]);
  });

  test("gets everything again after a reboot", async () => {
    const world = await aWorld("a");
    await world.pass();
    world.bootId = "boot-2";
    world.podNetwork.takeLink(inodeOf("uid-1"), "net1");
    expect(await world.pass()).toBeUndefined();
    expect(world.cni.calls).toEqual([
      "ADD box-uid-1/net1",
      "DEL box-uid-1/net1",
      "ADD box-uid-1/net1",
    ]);
  });
});

describe("a failed attachment", () => {
  const failed = new AppError("CNI_PLUGIN_FAILED", {
    plugin: "bridge",
    command: "ADD",
    message: "no more addresses",
  });

  test("does not block others, is undone, and reports its reason", async () => {
    const world = await aWorld("a,b");
    world.cni.failNext("add", failed, "half");
    expect(await world.pass()).toMatchObject({ code: failed.code });
    expect(world.cni.attachments).toEqual(["box-uid-1/net2"]);
    expect(await interfacesOf(world)).toEqual(["ns1/b@net2"]);
    expect(await world.errorReasons()).toEqual({ net1: "CniFailed" });
    expect(world.notes.map((note) => note.reason)).toContain("FailedAddingInterface");
    expect(await world.journal.list("uid-1")).toHaveLength(1);
  });

  test("is retried, and its error is removed after a success", async () => {
    const world = await aWorld("a");
    world.cni.failNext("add", failed);
    await world.pass();
    expect(await world.pass()).toBeUndefined();
    expect(await world.annotation(names.ATTACHMENT_ERRORS_ANNOTATION)).toBeUndefined();
    expect(await interfacesOf(world)).toEqual(["ns1/a@net1"]);
  });

  test("is undone before the next attempt if undoing failed", async () => {
    const world = await aWorld("a");
    world.cni.failNext("add", failed, "half");
    world.cni.failNext("del", failed);
    await world.pass();
    expect(world.cni.attachments).toEqual(["box-uid-1/net1"]);
    expect(await world.pass()).toBeUndefined();
    expect(world.cni.calls.slice(2)).toEqual(["DEL box-uid-1/net1", "ADD box-uid-1/net1"]);
  });

  test("is retried when its missing network is created", async () => {
    const world = await aWorld("later,a");
    expect(await world.pass()).toMatchObject({ code: "CNI_NETWORK_NOT_FOUND" });
    expect(await world.errorReasons()).toEqual({ net1: "NetworkNotFound" });
    world.putNads("later");
    expect(await world.pass()).toBeUndefined();
    expect(await interfacesOf(world)).toEqual(["ns1/a@net2", "ns1/later@net1"]);
    expect(await world.errorReasons()).toEqual({});
  });

  test("is forgotten with its pod if nothing was begun", async () => {
    const world = await aWorld("later");
    await world.continuePass();
    expect(world.lastAddReason("net1")).toBe("NetworkNotFound");
    await world.deletePod();
    await world.continuePass();
    expect(world.lastAddReason("net1")).toBeUndefined();
  });

  test("is not undone when the interface name is in use, because DEL would destroy the other attachment", async () => {
    const world = await aWorld("a@net1");
    const link = { name: "net1", kind: "veth", mac: MAC, mtu: 1500, up: true };
    world.podNetwork.putLink(inodeOf("uid-1"), link);
    expect(await world.pass()).toMatchObject({ code: "CNI_NAME_TAKEN" });
    expect(world.cni.calls).toEqual([]);
    expect(await world.errorReasons()).toEqual({ net1: "InterfaceNameTaken" });
    expect(world.podNetwork.findLink(inodeOf("uid-1"), "net1")).toBeDefined();
  });

  test("does not change an earlier attachment of the same name", async () => {
    const world = await aWorld("a@net1,b@net1");
    expect(await world.pass()).toBeUndefined();
    expect(await interfacesOf(world)).toEqual(["ns1/a@net1"]);
    expect(await world.errorReasons()).toEqual({ net1: "DuplicateInterface" });
  });

  test.each([
    { name: "an invalid MAC", element: { name: "a", mac: "x;IP=1.2.3.4" }, want: "RequestInvalid" },
    {
      name: "a MAC of 8 bytes",
      element: { name: "a", mac: `${MAC}:02:03` },
      want: "RequestInvalid",
    },
    { name: "an invalid address", element: { name: "a", ips: ["foo"] }, want: "RequestInvalid" },
    {
      name: "an invalid prefix length",
      element: { name: "a", ips: ["10.0.0.1/99"] },
      want: "RequestInvalid",
    },
    {
      name: "an address that the network does not assign",
      element: { name: "a", ips: ["10.0.0.9/24"] },
      want: "RequestNotMet",
    },
    { name: "an invalid configuration", element: { name: "bad" }, want: "NetworkInvalid" },
  ])("reports the reason and leaves no leftovers: $name", async ({ element, want }) => {
    const world = await aWorld(JSON.stringify([element]));
    world.putNad({ namespace: "ns1", name: "bad" }, { plugins: [] });
    expect(await world.pass()).toBeDefined();
    expect(await world.errorReasons()).toEqual({ net1: want });
    expect(world.cni.attachments).toEqual([]);
  });

  test("stays in the status after a failed DEL and is retried", async () => {
    const world = await aWorld("a");
    await world.pass();
    await world.putPod({ networks: "" });
    world.cni.failNext("del", failed);
    expect(await world.pass()).toMatchObject({ code: failed.code });
    expect(await interfacesOf(world)).toEqual(["ns1/a@net1"]);
    expect(await world.pass()).toBeUndefined();
    expect(await interfacesOf(world)).toEqual([]);
  });
});

describe("after the deletion", () => {
  test("of the definition, DEL uses the configuration of ADD", async () => {
    const world = await aWorld("a");
    await world.pass();
    world.dropNad("ns1/a");
    await world.putPod({ networks: "" });
    expect(await world.pass()).toBeUndefined();
    expect(world.cni.attachments).toEqual([]);
  });

  test.each([
    { name: "a finished pod", end: (world: World) => world.putPod({ phase: "Succeeded" }) },
    { name: "a deleted pod", end: (world: World) => world.deletePod() },
  ])("of $name, everything is detached in reverse order", async ({ end }) => {
    const world = await aWorld("a,b");
    await world.pass();
    await end(world);
    world.dropNamespace("box-uid-1");
    expect(await world.pass()).toBeUndefined();
    expect(world.cni.calls.slice(2)).toEqual(["DEL box-uid-1/net2", "DEL box-uid-1/net1"]);
    expect(await world.journal.listPods()).toEqual([]);
    expect(await interfacesOf(world)).toEqual([]);
  });

  test("of a pod that was replaced, the old one is detached and the new one attached", async () => {
    const world = await aWorld("a");
    await world.pass();
    await world.deletePod();
    await world.putPod({ networks: "b", uid: "uid-2" });
    expect(await world.pass()).toBeUndefined();
    expect(world.cni.attachments).toEqual(["box-uid-2/net1"]);
    expect(await interfacesOf(world)).toEqual(["ns1/b@net1"]);
    expect(await world.journal.listPods()).toEqual(["uid-2"]);
  });

  test("of a pod from a stale cache only, nothing is detached", async () => {
    const world = await aWorld("a");
    await world.pass();
    const pod = await world.store.list(PODS);
    await world.deletePod();
    for (const item of pod.items) world.store.put(PODS, item);
    expect(await world.pass()).toBeUndefined();
    expect(world.cni.attachments).toEqual(["box-uid-1/net1"]);
  });

  test("of a pod has begun, it keeps its networks until its processes end, and gets no new ones", async () => {
    const world = await aWorld("a");
    await world.pass();
    await world.putPod({ networks: "a,b", isDeleting: true });
    expect(await world.pass()).toBeUndefined();
    expect(world.cni.attachments).toEqual(["box-uid-1/net1"]);
  });
});

describe("a pod that is being deleted", () => {
  test.each([
    {
      name: "stays attached while one of its containers runs",
      ended: [true, false],
      want: ["box-uid-1/net1"],
    },
    {
      name: "stays attached while its containers' state is unknown",
      ended: [],
      want: ["box-uid-1/net1"],
    },
    { name: "is detached when all its containers have ended", ended: [true, true], want: [] },
  ])("$name", async ({ ended, want }) => {
    const world = await aWorld("a");
    await world.pass();
    await world.putPod({ networks: "a", isDeleting: true, ended });
    expect(await world.pass()).toBeUndefined();
    expect(world.cni.attachments).toEqual(want);
  });
});

test.each([
  {
    program: "/usr/bin/virt-launcher-monitor",
    networks: ["ns1/a", "ns1/c"],
    errors: { net1: "AttributesFixed" },
    calls: ["ADD box-uid-1/net1", "ADD box-uid-1/net2", "DEL box-uid-1/net1"],
  },
  {
    program: "/usr/bin/patchbay-launcher",
    networks: ["ns1/b", "ns1/c"],
    errors: {},
    calls: [
      "ADD box-uid-1/net1",
      "DEL box-uid-1/net1",
      "ADD box-uid-1/net1",
      "ADD box-uid-1/net2",
      "DEL box-uid-1/net1",
    ],
  },
])("after a swap beside a plug, a pod of $program is on $networks", async (row) => {
  const swap = new World();
  swap.putNads("a", "b", "c");
  const launcherProgram = row.program;
  await swap.putPod({ networks: "a@net1", launcherProgram });
  await swap.pass();
  await swap.putPod({ networks: "b@net1,c@net2", launcherProgram });
  await swap.pass();
  expect((await swap.networkStatus()).map(({ name }) => name)).toEqual(row.networks);
  expect(await swap.errorReasons()).toEqual(row.errors);
  await swap.putPod({ networks: "c@net2", launcherProgram });
  await swap.pass();
  expect(swap.cni.calls).toEqual(row.calls);
});
