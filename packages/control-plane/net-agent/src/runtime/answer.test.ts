// SPDX-License-Identifier: Apache-2.0
// Answers to the container runtime's calls, with the resulting state of node and pod.
import { AppError } from "@patchbay/base";
import { beforeEach, expect, test } from "vitest";
import { FakeRuntime } from "../testing/runtime.ts";
import { World } from "../testing/world.ts";

const FAILURE = { plugin: "bridge", command: "ADD", message: "no", cniCode: 999 };
const ALL = ["box-uid-1/eth0", "box-uid-1/net1", "box-uid-1/net2"];
let world: World;
let runtime: FakeRuntime;

/** The pod has just been bound; its sandbox is unknown until it is created. */
async function bind(networks = "a,b"): Promise<void> {
  await world.putPod({ networks, phase: "Pending" });
  world.putSandbox("uid-1", "box-uid-1");
  world.sandboxes.take("uid-1");
}

async function told(): Promise<readonly string[]> {
  const status = await world.networkStatus();
  return status.map(({ name, interface: nic = "", default: isDefault }) =>
    [name, nic, ...(isDefault === true ? ["default"] : [])].join(" "),
  );
}

async function rows(): Promise<readonly string[]> {
  const list = await world.journal.list("uid-1");
  return list.map(({ request, state }) => `${request.interfaceName} ${state}`);
}

beforeEach(async () => {
  world = new World();
  runtime = new FakeRuntime(world);
  world.putNads("a", "b", "c");
  await bind();
});

test("ADD attaches the default network and the annotation's, and writes the status before it returns", async () => {
  const { status, parsed } = await runtime.call("ADD");
  expect(status).toBe(200);
  expect(parsed).toMatchObject({
    cniVersion: "1.0.0",
    interfaces: [{ name: "eth0", sandbox: "/run/netns/box-uid-1" }],
  });
  expect(world.cni.attachments).toEqual(ALL);
  expect(await told()).toEqual(["everyone eth0 default", "ns1/a net1", "ns1/b net2"]);
  expect(world.openNamespaces).toBe(0);
});

test("passes the runtime's arguments and values to the default network only", async () => {
  const runtimeConfig = { portMappings: [{ hostPort: 1 }] };
  await runtime.call("ADD", { config: { runtimeConfig } });
  const [first, second] = world.requests.map(({ request }) => request);
  expect(first?.capabilityArgs).toEqual(runtimeConfig);
  expect(first?.args).toEqual([
    ["IgnoreUnknown", "1"],
    ["K8S_POD_NAMESPACE", "ns1"],
    ["K8S_POD_NAME", "pod"],
    ["K8S_POD_UID", "uid-1"],
  ]);
  expect(second?.capabilityArgs).toEqual({});
});

test("ignores the status that an earlier sandbox left", async () => {
  const forged = JSON.stringify([{ name: "x", interface: "eth7", default: true }]);
  await world.putPod({
    networks: "a",
    phase: "Pending",
    annotations: { "k8s.v1.cni.cncf.io/network-status": forged },
  });
  await runtime.call("ADD");
  expect(await told()).toEqual(["everyone eth0 default", "ns1/a net1"]);
});

test("the loop reconciles what was attached at creation", async () => {
  await runtime.call("ADD");
  await world.putPod({});
  const before = world.cni.calls.length;
  expect(await world.pass()).toBeUndefined();
  expect(world.cni.calls).toHaveLength(before);
  await world.putPod({
    networks: '[{"name":"b","interface":"net2"},{"name":"c","interface":"net3"}]',
  });
  expect(await world.pass()).toBeUndefined();
  expect(world.cni.attachments).toEqual(["box-uid-1/eth0", "box-uid-1/net2", "box-uid-1/net3"]);
  expect(await told()).toEqual(["everyone eth0 default", "ns1/b net2", "ns1/c net3"]);
});

test("reserves the default network's interface name", async () => {
  await bind("a@eth0");
  const { parsed } = await runtime.call("ADD");
  expect(parsed).toMatchObject({ code: 999, msg: expect.stringContaining("eth0") as string });
  expect(world.cni.attachments).toEqual([]);
});

test.each(["a,missing", "[", "a@net1,b@net1"])(
  "undoes everything when the annotation cannot be met (%s), and reports why",
  async (networks) => {
    await bind(networks);
    const { status, parsed } = await runtime.call("ADD");
    expect(status).toBe(400);
    expect(parsed).toMatchObject({ cniVersion: "1.0.0", code: 999 });
    expect(world.cni.attachments).toEqual([]);
    expect(await told()).toEqual([]);
    expect(await rows()).toEqual([]);
    expect(Object.keys(await world.errorReasons())).toHaveLength(1);
  },
);

test("retries in the next sandbox without backoff", async () => {
  await bind("a,missing");
  await runtime.call("ADD");
  world.putNads("missing");
  world.putSandbox("uid-1", "box-2");
  const env = { CNI_CONTAINERID: "box-2", CNI_NETNS: "/run/netns/box-2" };
  expect(await runtime.call("ADD", { env })).toMatchObject({ status: 200 });
  expect(await world.errorReasons()).toEqual({});
});

test("undoes a failed default network and returns the plugin's error code", async () => {
  world.cni.failNext(
    "add",
    new AppError("CNI_PLUGIN_FAILED", { ...FAILURE, cniCode: 107 }),
    "half",
  );
  expect((await runtime.call("ADD")).parsed).toMatchObject({ code: 107 });
  expect(world.cni.attachments).toEqual([]);
  expect(await rows()).toEqual([]);
});

test("a second ADD is harmless", async () => {
  await runtime.call("ADD");
  expect(await runtime.call("ADD")).toMatchObject({ status: 400 });
  expect(world.cni.attachments).toEqual(ALL);
});

test.each([
  { name: "with a different UID", uid: "uid-7" },
  { name: "that does not exist", uid: "uid-1", isGone: true },
])("asks the runtime to retry for a pod $name", async ({ uid, isGone = false }) => {
  if (isGone) await world.deletePod();
  const CNI_ARGS = `K8S_POD_NAMESPACE=ns1;K8S_POD_NAME=pod;K8S_POD_UID=${uid}`;
  expect((await runtime.call("ADD", { env: { CNI_ARGS } })).parsed).toMatchObject({ code: 11 });
  expect(world.cni.calls).toEqual([]);
});

test("recognizes a static pod by its kubelet's uid", async () => {
  await world.putPod({
    networks: "a",
    phase: "Pending",
    uid: "image",
    annotations: { "kubernetes.io/config.mirror": "uid-1" },
  });
  expect(await runtime.call("ADD")).toMatchObject({ status: 200 });
  expect(await told()).toEqual(["everyone eth0 default", "ns1/a net1"]);
  expect(await world.pass()).toBeUndefined();
  expect(world.cni.attachments).toEqual(["box-uid-1/eth0", "box-uid-1/net1"]);
});

test.each([
  { name: "that does not exist", env: { CNI_NETNS: "/run/netns/nobody" } },
  { name: "that is the host's", env: { CNI_NETNS: "/run/netns/host" } },
])("attaches nothing to a namespace $name", async ({ env }) => {
  world.swapNamespace("host", "inode-host");
  expect(await runtime.call("ADD", { env })).toMatchObject({ status: 400 });
  expect(world.cni.calls).toEqual([]);
});

test("rejects a default network that calls patchbay-cni", async () => {
  runtime.network = { cniVersion: "1.0.0", name: "loop", plugins: [{ type: "patchbay-cni" }] };
  expect(await runtime.call("ADD")).toMatchObject({ status: 400 });
  expect(world.cni.calls).toEqual([]);
});

test("attaches nothing without a default network", async () => {
  runtime.network = undefined;
  expect(await runtime.call("ADD")).toMatchObject({ status: 400 });
  expect((await runtime.call("STATUS")).parsed).toMatchObject({ code: 50 });
  expect(world.cni.calls).toEqual([]);
});

test("DEL detaches everything in reverse order and may be repeated", async () => {
  await runtime.call("ADD");
  const before = world.cni.calls.length;
  const env = { CNI_NETNS: "" };
  expect(await runtime.call("DEL", { env })).toMatchObject({ status: 200, body: "" });
  expect(world.cni.calls.slice(before)).toEqual(ALL.toReversed().map((nic) => `DEL ${nic}`));
  expect(await rows()).toEqual([]);
  expect(await told()).toEqual([]);
  expect(await runtime.call("DEL", { env })).toMatchObject({ status: 200 });
  expect(world.cni.calls).toHaveLength(before + 3);
});

test("DEL needs neither the pod, its name nor a definition", async () => {
  await runtime.call("ADD");
  await world.deletePod();
  for (const nad of ["a", "b"]) world.dropNad(`ns1/${nad}`);
  runtime.network = undefined;
  expect(await runtime.call("DEL", { env: { CNI_ARGS: "" } })).toMatchObject({ status: 200 });
  expect(world.cni.attachments).toEqual([]);
  expect(await rows()).toEqual([]);
});

test("DEL names no namespace after a reboot", async () => {
  await runtime.call("ADD");
  world.bootId = "boot-2";
  await runtime.call("DEL");
  expect(world.requests.at(-1)?.request).toMatchObject({ interfaceName: "eth0" });
  expect(world.requests.at(-1)?.request).not.toHaveProperty("netnsPath");
});

test("a failed DEL does not stop the others, is returned, and is retried", async () => {
  await runtime.call("ADD");
  world.cni.failNext("del", new AppError("CNI_PLUGIN_FAILED", FAILURE));
  expect((await runtime.call("DEL")).parsed).toMatchObject({ code: 999 });
  expect(world.cni.attachments).toEqual(["box-uid-1/net2"]);
  expect(await runtime.call("DEL")).toMatchObject({ status: 200 });
  expect(world.cni.attachments).toEqual([]);
});

test("DEL does not wait for the API server", async () => {
  await runtime.call("ADD");
  world.beforeEachWrite = () => {
    throw new AppError("KUBE_UNREACHABLE");
  };
  expect(await runtime.call("DEL")).toMatchObject({ status: 200 });
  expect(world.cni.attachments).toEqual([]);
  expect(runtime.woken).toEqual(["ns1/pod"]);
});

test("the next sandbox takes over, and the late DEL of the former one is harmless", async () => {
  await runtime.call("ADD");
  world.putSandbox("uid-1", "box-2");
  const env = { CNI_CONTAINERID: "box-2", CNI_NETNS: "/run/netns/box-2" };
  await runtime.call("ADD", { env });
  const now = ["box-2/eth0", "box-2/net1", "box-2/net2"];
  expect(world.cni.attachments).toEqual(now);
  const status = await told();
  expect(await runtime.call("DEL")).toMatchObject({ status: 200 });
  expect(world.cni.attachments).toEqual(now);
  expect(await told()).toEqual(status);
});

test("detaches a default network without a DEL once pod and sandbox are deleted", async () => {
  await runtime.call("ADD");
  await world.putPod({});
  await world.deletePod();
  expect(await world.pass()).toBeUndefined();
  expect(world.cni.attachments).toEqual(["box-uid-1/eth0"]);
  expect(await world.nextMs()).toBe(60_000);
  world.sandboxes.take("uid-1");
  expect(await world.pass()).toBeUndefined();
  expect(world.cni.attachments).toEqual([]);
  expect(await rows()).toEqual([]);
});

test("CHECK names what is missing", async () => {
  expect((await runtime.call("CHECK")).parsed).toMatchObject({ code: 100 });
  await runtime.call("ADD");
  expect(await runtime.call("CHECK")).toMatchObject({ status: 200, body: "" });
  world.podNetwork.takeLink("inode-uid-1", "net2");
  const { parsed } = await runtime.call("CHECK");
  expect(parsed).toMatchObject({
    code: 100,
    msg: expect.stringContaining("net2 of ns1/b") as string,
  });
});

test("STATUS succeeds when pods can be attached", async () => {
  expect(await runtime.call("STATUS")).toMatchObject({ status: 200, body: "" });
});

test("GC releases sandboxes that the runtime does not list, except ready ones", async () => {
  await runtime.call("ADD");
  const config = (...ids: readonly string[]) => ({
    "cni.dev/valid-attachments": ids.map((containerID) => ({ containerID, ifname: "eth0" })),
  });
  await runtime.call("GC", { config: config("box-uid-1") });
  expect(world.cni.attachments).toEqual(ALL);
  world.putSandbox("uid-1", "box-uid-1");
  await runtime.call("GC", { config: config() });
  expect(world.cni.attachments).toEqual(ALL);
  world.sandboxes.take("uid-1");
  expect(await runtime.call("GC", { config: config() })).toMatchObject({ status: 200 });
  expect(world.cni.attachments).toEqual([]);
});

test("the next sandbox works without leftovers after a crash anywhere in ADD", async () => {
  let call = 1;
  for (; call < 50; call += 1) {
    world = new World();
    runtime = new FakeRuntime(world);
    world.putNads("a", "b");
    await bind();
    const { status } = await runtime.call("ADD", {}, call);
    world.putSandbox("uid-1", "box-2");
    world.sandboxes.take("uid-1");
    const env = { CNI_CONTAINERID: "box-2", CNI_NETNS: "/run/netns/box-2" };
    expect(await runtime.call("ADD", { env })).toMatchObject({ status: 200 });
    expect(world.cni.attachments).toEqual(["box-2/eth0", "box-2/net1", "box-2/net2"]);
    expect(await rows()).toEqual(["eth0 attached", "net1 attached", "net2 attached"]);
    await runtime.call("DEL", { env });
    expect(world.cni.attachments).toEqual([]);
    expect(await rows()).toEqual([]);
    if (status === 200) break;
  }
  expect(call).toBeGreaterThan(9);
});

test.each([
  { name: "another path", sketch: { url: "/other" }, status: 404 },
  { name: "another method", sketch: { method: "GET" }, status: 405 },
  { name: "health", sketch: { url: "/healthz", method: "GET" }, status: 200 },
  { name: "readiness", sketch: { url: "/readyz", method: "GET" }, status: 200 },
  { name: "an unknown command", sketch: { env: { CNI_COMMAND: "NO" } }, status: 400 },
])("$name gets status $status", async ({ sketch, status }) => {
  expect(await runtime.call("ADD", sketch)).toMatchObject({ status });
});

test("the Multus shim gets a result in its own format", async () => {
  const { parsed } = await runtime.call("ADD", { url: "/cni", config: { cniVersion: "0.4.0" } });
  expect(parsed).toMatchObject({ Result: { cniVersion: "1.0.0", interfaces: [{ name: "eth0" }] } });
});
