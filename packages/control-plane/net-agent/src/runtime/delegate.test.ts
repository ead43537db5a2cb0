// SPDX-License-Identifier: Apache-2.0
// Calls of Multus' dynamic networks controller.
import { beforeEach, expect, test } from "vitest";
import { FakeRuntime } from "../testing/runtime.ts";
import { World } from "../testing/world.ts";

const URL = "/delegate";
const env = { CNI_IFNAME: "net2" };
const config = { name: "b", type: "bridge" };
let world: World;
let runtime: FakeRuntime;

beforeEach(async () => {
  world = new World();
  world.mode = "multus-dynamic";
  runtime = new FakeRuntime(world);
  world.putNads("a", "b");
  await world.putPod({ networks: "a", phase: "Pending" });
  world.putSandbox("uid-1", "box-uid-1");
  await runtime.call("ADD");
  await world.putPod({ networks: "a@net1,b@net2" });
});

test("attaches a network that the annotation requests, and detaches it with the pod", async () => {
  const { status, parsed } = await runtime.call("ADD", { url: URL, env, config });
  expect(status).toBe(200);
  expect(parsed).toMatchObject({ Result: { interfaces: [{ name: "net2" }] } });
  expect(world.cni.attachments).toContain("box-uid-1/net2");
  expect(await runtime.call("CHECK", { url: URL, env, config })).toMatchObject({ status: 200 });
  expect(await runtime.call("DEL")).toMatchObject({ status: 200 });
  expect(world.cni.attachments).toEqual([]);
});

test("detaches with the journal's row", async () => {
  await runtime.call("ADD", { url: URL, env, config });
  const removal = { url: URL, env, config: { name: "other", type: "macvlan" } };
  expect(await runtime.call("DEL", removal)).toMatchObject({ status: 200, body: "" });
  expect(world.requests.at(-1)?.request.config.plugins).toEqual([
    expect.objectContaining({ type: "bridge" }),
  ]);
  expect(world.cni.attachments).toEqual(["box-uid-1/eth0", "box-uid-1/net1"]);
  expect(await runtime.call("CHECK", { url: URL, env, config })).toMatchObject({ status: 400 });
});

test("detaches a foreign attachment with the configuration in the call", async () => {
  const removal = { url: URL, env: { CNI_IFNAME: "net9" }, config };
  expect(await runtime.call("DEL", removal)).toMatchObject({ status: 200 });
  expect(world.requests.at(-1)?.request).toMatchObject({
    interfaceName: "net9",
    config: { name: "b", plugins: [{ type: "bridge" }] },
  });
  expect(await runtime.call("DEL", { ...removal, config: {} })).toMatchObject({ status: 400 });
});

test("detaches a foreign attachment with its cached configuration, whatever that names", async () => {
  world.policy = { ...world.policy, trustedNamespaces: [] };
  const made = { cniVersion: "1.0.0", name: "card", type: "host-device", device: "eth9" };
  const entry = {
    kind: "cniCacheV1",
    containerId: "box-uid-1",
    ifName: "net9",
    networkName: "card",
    config: Buffer.from(JSON.stringify(made)).toString("base64"),
  };
  await world.files.writeAtomic("/cache/results/card-box-uid-1-net9", JSON.stringify(entry));
  const removal = { url: URL, env: { CNI_IFNAME: "net9" }, config };
  expect(await runtime.call("DEL", removal)).toMatchObject({ status: 200 });
  expect(world.requests.at(-1)?.request.config).toMatchObject({
    name: "card",
    plugins: [{ type: "host-device" }],
  });
});

test("does not run a forbidden definition from the pod's status", async () => {
  world.policy = { ...world.policy, trustedNamespaces: [] };
  const before = world.requests.length;
  const evil = { name: "evil", type: "host-device", device: "eth0" };
  const removal = { url: URL, env: { CNI_IFNAME: "net9" }, config: evil };
  const { parsed } = await runtime.call("DEL", removal);
  expect(parsed).toMatchObject({ msg: expect.stringContaining('type "host-device"') as string });
  expect(world.requests).toHaveLength(before);
});

test.each([
  { name: "for a NIC that the annotation does not request", command: "ADD", nic: "net7" },
  { name: "for an existing NIC", command: "ADD", nic: "net1" },
  { name: "for all attachments", command: "STATUS", nic: "net2" },
])("rejects $command $name", async ({ command, nic }) => {
  const before = world.cni.calls.length;
  const call = { url: URL, env: { CNI_IFNAME: nic }, config };
  expect(await runtime.call(command, call)).toMatchObject({ status: 400 });
  expect(world.cni.calls).toHaveLength(before);
});

test("rejects a network that the pod may not use", async () => {
  world.policy = { ...world.policy, trustedNamespaces: [], plugins: ["!bridge"] };
  const { parsed } = await runtime.call("ADD", { url: URL, env, config });
  expect(parsed).toMatchObject({ msg: expect.stringContaining("policy") as string });
});

test("rejects calls when the agent attaches networks itself", async () => {
  world.mode = "multus";
  const { parsed } = await runtime.call("ADD", { url: URL, env, config });
  expect(parsed).toMatchObject({ msg: expect.stringContaining("--mode=multus-dynamic") as string });
});
