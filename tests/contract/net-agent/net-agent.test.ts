// SPDX-License-Identifier: Apache-2.0
// The program net-agent with a real API server, real plugins and real namespaces, also killed and restarted.
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { names } from "@patchbay/api";
import { parseNetworkStatus, type NetworkStatus } from "@patchbay/api/annotations";
import { FakeCriSandboxes } from "@patchbay/cri/testing";
import type { NetworkConfigList, Sandbox } from "@patchbay/core/interfaces";
import { eventually, executableOf, run } from "@patchbay/support";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { startHarness, type Harness } from "../apiserver/harness.ts";
import { CniNode } from "../cni/node.ts";
import { NAD_DEFINITION } from "./nad-definition.ts";

const PODS = "/api/v1/namespaces/default/pods";
const NADS = "/apis/k8s.cni.cncf.io/v1/namespaces/default/network-attachment-definitions";
const MAC = "02:00:00:00:66:01";
const TIMEOUT = { withinMs: 10_000 };

let api: Harness;
let node: CniNode;
let runtime: FakeCriSandboxes;
let sandbox: Sandbox;
let uid: string;
let agent: ChildProcess | undefined;

async function startAgent(): Promise<void> {
  const { directory } = node;
  writeFileSync(join(directory, "kubeconfig"), api.kubeconfig);
  const child = spawn(
    executableOf("net-agent"),
    [
      "--node-name",
      "node-1",
      "--kubeconfig",
      join(directory, "kubeconfig"),
      "--cri-endpoint",
      runtime.endpoint,
      "--state-dir",
      join(directory, "state"),
      "--cni-bin-dir",
      node.binDir,
      "--cni-bin-dir",
      "/usr/lib/cni",
      "--log-level",
      "error",
      "--multus-dir",
      join(directory, "multus"),
    ],
    { stdio: ["ignore", "pipe", "inherit"] },
  );
  agent = child;
  const answer: unknown = await once(child.stdout, "data");
  expect(String(answer)).toMatch(/^ready/);
}

async function killAgent(signal: NodeJS.Signals = "SIGKILL"): Promise<number | null> {
  const child = agent;
  agent = undefined;
  if (child === undefined) return null;
  const exit = once(child, "exit");
  child.kill(signal);
  await exit;
  return child.exitCode;
}

function nadOf(name: string, config: string): object {
  return {
    apiVersion: "k8s.cni.cncf.io/v1",
    kind: "NetworkAttachmentDefinition",
    metadata: { name },
    spec: { config },
  };
}

async function putNad(name: string, plugins: NetworkConfigList["plugins"]): Promise<void> {
  await api.post(NADS, nadOf(name, JSON.stringify({ cniVersion: "1.0.0", plugins })));
}

async function ask(networks: readonly unknown[]): Promise<void> {
  const annotations = { [names.NETWORKS_ANNOTATION]: JSON.stringify(networks) };
  await api.patch(`${PODS}/pod`, { metadata: { annotations } });
}

async function annotation(name: string): Promise<string | undefined> {
  return (await api.get(`${PODS}/pod`)).body.metadata.annotations?.[name];
}

async function networkStatus(): Promise<readonly NetworkStatus[]> {
  return parseNetworkStatus(await annotation(names.NETWORK_STATUS_ANNOTATION));
}

/** The NICs in the pod's status once they are these. */
async function expectStatus(...interfaces: readonly string[]): Promise<void> {
  let last: readonly string[] = [];
  await eventually(async () => {
    last = (await networkStatus()).map((entry) => entry.interface ?? "");
    return JSON.stringify(last) === JSON.stringify(interfaces);
  }, TIMEOUT).catch(() => undefined); // the comparison below shows it
  expect(last).toEqual(interfaces);
}

/** Events with these reasons that follow the pod's status. */
async function expectEvents(...reasons: readonly string[]): Promise<void> {
  let reported: readonly string[] = [];
  await eventually(async () => {
    const { body } = await api.get("/api/v1/namespaces/default/events");
    reported = body.items.map((event) => event.reason);
    return reasons.every((reason) => reported.includes(reason));
  }, TIMEOUT).catch(() => undefined); // the comparison below shows it
  expect(reported).toEqual(expect.arrayContaining([...reasons]));
}

// All tests share one API server and one agent; each test restores its changes.
beforeAll(async () => {
  node = new CniNode();
  runtime = await FakeCriSandboxes.start();
  api = await startHarness();
  await api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", NAD_DEFINITION);
  await eventually(async () => (await api.get(NADS)).code === 200, TIMEOUT);
});

beforeEach(async () => {
  await putNad("blue", [node.bridgePlugin()]);
  await putNad("green", [node.layer2Plugin()]);
  const containers = [{ name: "c", image: "i:1" }];
  const made = await api.post(PODS, {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "pod" },
    spec: { nodeName: "node-1", containers, terminationGracePeriodSeconds: 0 },
  });
  uid = made.body.metadata.uid;
  sandbox = node.addSandbox({ uid, namespace: "default", name: "pod" });
  runtime.put(sandbox);
  await api.patch(`${PODS}/pod/status`, { status: { phase: "Running" } });
  if (agent === undefined) await startAgent();
});

afterEach(async () => {
  await api.delete(`${PODS}?gracePeriodSeconds=0`);
  if (agent === undefined) await startAgent();
  try {
    await eventually(() => !existsSync(rowsDirectory()), TIMEOUT);
  } finally {
    await api.delete(NADS);
  }
});

afterAll(async () => {
  await killAgent();
  await api.close();
  runtime.close();
  node.close();
});

test("attaches and detaches networks with the annotation, and SIGTERM stops the agent cleanly", async () => {
  await ask([{ name: "blue", interface: "net1", mac: MAC }]);
  await expectStatus("net1");
  expect(node.links(sandbox)).toMatchObject([{ ifname: "net1", address: MAC }]);
  expect(await networkStatus()).toEqual([
    {
      name: "default/blue",
      interface: "net1",
      ips: node.leases("blue"),
      mac: MAC,
      dns: {},
      gateway: ["10.55.0.1"],
    },
  ]);
  await ask([
    { name: "blue", interface: "net1", mac: MAC },
    { name: "green", interface: "net2" },
    { name: "blue", interface: "net3" },
  ]);
  await expectStatus("net1", "net2", "net3");
  await ask([{ name: "green", interface: "net2" }]);
  await expectStatus("net2");
  expect(node.nics(sandbox)).toEqual(["net2"]);
  expect(node.leases("blue")).toEqual([]);
  await expectEvents("AddedInterface", "RemovedInterface");
  expect(await killAgent("SIGTERM")).toBe(0);
});

function masqueradeRules(): readonly string[] {
  const all = run("iptables-save", "-t", "nat").split("\n");
  return all.filter((line) => line.includes(sandbox.id));
}

test("removes masquerade rules with a NIC whose addresses the guest has", async () => {
  await putNad("masked", [{ ...node.bridgePlugin(), ipMasq: true, isGateway: true }]);
  await ask([{ name: "masked", interface: "net1" }]);
  await expectStatus("net1");
  expect(masqueradeRules()).not.toEqual([]);
  run("ip", "-n", sandbox.id, "address", "flush", "dev", "net1");
  await ask([]);
  await expectStatus();
  expect(masqueradeRules()).toEqual([]);
});

test.each(["bridge", "ptp"])("a pod that ends leaves no masquerade rules of %s", async (type) => {
  await putNad("masked", [{ ...node.bridgePlugin(), type, ipMasq: true }]);
  await ask([{ name: "masked", interface: "net1" }]);
  await expectStatus("net1");
  expect(masqueradeRules()).not.toEqual([]);
  node.dropSandbox(sandbox);
  await api.delete(`${PODS}/pod`, { gracePeriodSeconds: 0 });
  await eventually(() => !existsSync(rowsDirectory()), TIMEOUT);
  expect(masqueradeRules()).toEqual([]);
  expect(node.leases("masked")).toEqual([]);
});

test("a sandbox that ends leaves neither lease nor masquerade rule, although its pod lives and gets another", async () => {
  await putNad("masked", [{ ...node.bridgePlugin(), ipMasq: true }]);
  await ask([{ name: "masked", interface: "net1" }]);
  await expectStatus("net1");
  const former = sandbox;
  expect(masqueradeRules()).not.toEqual([]);
  node.dropSandbox(sandbox);
  runtime.take(uid);
  const conditions = [{ type: "PodReadyToStartContainers", status: "False" }];
  await api.patch(`${PODS}/pod/status`, { status: { conditions } });
  await expectStatus();
  await eventually(() => node.leases("masked").length === 0, TIMEOUT);
  expect(masqueradeRules()).toEqual([]);
  sandbox = node.addSandbox({ uid, namespace: "default", name: "pod" });
  expect(sandbox.id).not.toBe(former.id);
  runtime.put(sandbox);
  await api.patch(`${PODS}/pod/status`, { status: { podIP: "10.244.0.9" } });
  await expectStatus("net1");
  expect(node.leases("masked")).toHaveLength(1);
});

test("at start frees what a plugin holds for no pod and preserves what a pod uses", async () => {
  node.addKeeper();
  const plugins = [{ type: "keeper", dir: node.binDir }];
  const config = JSON.stringify({ cniVersion: "1.1.0", plugins });
  await api.post(NADS, nadOf("kept", config));
  mkdirSync(join(node.directory, "multus/results"), { recursive: true });
  const other = { kind: "cniCacheV1", networkName: "kept", containerId: "theirs", ifName: "net1" };
  writeFileSync(join(node.directory, "multus/results/kept-theirs-net1"), JSON.stringify(other));
  await ask([{ name: "kept", interface: "net1" }]);
  await expectStatus("net1");
  await killAgent();
  const [theirs, orphaned] = ["theirs", "nobodys"].map((id) =>
    join(node.binDir, `${id}.net1.held`),
  );
  for (const file of [theirs, orphaned]) writeFileSync(String(file), "");
  await startAgent();
  await eventually(() => !existsSync(String(orphaned)), TIMEOUT);
  expect(existsSync(String(theirs))).toBe(true);
  expect(existsSync(join(node.binDir, `${sandbox.id}.net1.held`))).toBe(true);
});

test("attaches a network that is created later", async () => {
  await ask([{ name: "later", interface: "net1" }]);
  const errors = await eventually(() => annotation(names.ATTACHMENT_ERRORS_ANNOTATION), TIMEOUT);
  expect(JSON.parse(errors)).toMatchObject({ net1: { reason: "NetworkNotFound" } });
  await putNad("later", [node.bridgePlugin()]);
  await expectStatus("net1");
  expect(await annotation(names.ATTACHMENT_ERRORS_ANNOTATION)).toBeUndefined();
});

test("a pod deleted while the agent is down leaves neither lease nor link", async () => {
  await ask([{ name: "blue", interface: "net1" }]);
  await expectStatus("net1");
  await killAgent();
  await api.delete(`${PODS}/pod`, { gracePeriodSeconds: 0 });
  node.dropSandbox(sandbox);
  await startAgent();
  await eventually(() => node.leases("blue").length === 0, TIMEOUT);
  expect(node.bridgePorts()).toEqual([]);
});

test("detaches a network with a deleted definition as it was attached", async () => {
  await ask([{ name: "blue", interface: "net1" }]);
  await expectStatus("net1");
  await api.delete(`${NADS}/blue`);
  await ask([]);
  await expectStatus();
  expect(node.leases("blue")).toEqual([]);
  expect(node.nics(sandbox)).toEqual([]);
});

test("after a kill during ADD the next agent undoes it", async () => {
  // The first time, the plugin creates the NIC and then hangs.
  const observed = join(node.directory, "seen");
  node.addPlugin(
    "slow",
    `if [ "$CNI_COMMAND" != ADD ] || [ -e ${observed} ]; then exec /usr/lib/cni/bridge; fi
     /usr/lib/cni/bridge > /dev/null; echo $$ > ${observed}; exec sleep 600`,
  );
  await putNad("slow", [{ ...node.bridgePlugin(), type: "slow" }]);
  await ask([{ name: "slow", interface: "net1" }]);
  await eventually(() => existsSync(observed), TIMEOUT);
  await killAgent();
  const plugin = readFileSync(observed, "utf8").trim();
  await eventually(() => !existsSync(`/proc/${plugin}/exe`), TIMEOUT);
  expect(await networkStatus()).toEqual([]);
  await startAgent();
  await expectStatus("net1");
  expect(node.leases("slow")).toHaveLength(1);
  expect(node.bridgePorts()).toHaveLength(1);
});

test("ends an IPAM plugin that outlives the agent and its caller before new work", async () => {
  const observed = join(node.directory, "orphan");
  node.addPlugin(
    "slow-ipam",
    `if [ "$CNI_COMMAND" != ADD ] || [ -e ${observed} ]; then exec /usr/lib/cni/bridge; fi
     setsid sh -c 'echo $$ > ${observed}; exec sleep 600' & exec sleep 600`,
  );
  await putNad("slow", [{ ...node.bridgePlugin(), type: "slow-ipam" }]);
  await ask([{ name: "slow", interface: "net1" }]);
  await eventually(() => existsSync(observed) && readFileSync(observed, "utf8") !== "", TIMEOUT);
  const orphan = readFileSync(observed, "utf8").trim();
  await killAgent();
  expect(existsSync(`/proc/${orphan}/exe`)).toBe(true);
  await startAgent();
  expect(existsSync(`/proc/${orphan}/exe`)).toBe(false);
  await expectStatus("net1");
});

test("a network whose plugin needs a missing daemon releases its name", async () => {
  await putNad("dhcp", [{ type: "macvlan", master: node.addParent(), ipam: { type: "dhcp" } }]);
  await ask([{ name: "dhcp", interface: "net1" }]);
  await eventually(() => annotation(names.ATTACHMENT_ERRORS_ANNOTATION), TIMEOUT);
  expect(node.nics(sandbox)).toEqual(["net1"]);
  await ask([{ name: "green", interface: "net1" }]);
  await eventually(async () => (await networkStatus()).length > 0, { withinMs: 30_000 });
  expect(await networkStatus()).toMatchObject([{ name: "default/green", interface: "net1" }]);
  expect(await annotation(names.ATTACHMENT_ERRORS_ANNOTATION)).toBeUndefined();
  await expectEvents("RemovedInterfaceByForce");
});

test("without KubeVirt's kinds a pod with a VMI owner is like any other", async () => {
  const owner = { apiVersion: "kubevirt.io/v1", kind: "VirtualMachineInstance", name: "vm" };
  const ownerReferences = [{ ...owner, uid: "none", controller: true }];
  await api.patch(`${PODS}/pod`, { metadata: { ownerReferences } });
  await putNad("ptp", [{ type: "ptp", ipam: node.bridgePlugin()["ipam"] }]);
  await ask([
    { name: "ptp", interface: "net1", mac: MAC },
    { name: "green", namespace: "elsewhere", interface: "net2" },
    { name: "green", interface: "net3" },
  ]);
  await expectStatus("net3");
  const errors = await annotation(names.ATTACHMENT_ERRORS_ANNOTATION);
  expect(JSON.parse(errors ?? "{}")).toMatchObject({
    net1: { reason: "RequestNotMet" },
    net2: { reason: "NetworkForbidden" },
  });
});

test("a plugin that cannot clean up delays the end of its pod by a few seconds only", async () => {
  await putNad("dhcp", [{ type: "macvlan", master: node.addParent(), ipam: { type: "dhcp" } }]);
  await ask([{ name: "dhcp", interface: "net1" }]);
  await eventually(() => annotation(names.ATTACHMENT_ERRORS_ANNOTATION), TIMEOUT);
  await api.delete(`${PODS}/pod`, { gracePeriodSeconds: 0 });
  node.dropSandbox(sandbox);
  await eventually(() => !existsSync(rowsDirectory()), { withinMs: 6_000 });
});

/** The state when the agent dies; a later state is possible too. */
const MOMENTS: readonly { readonly name: string; readonly seen: () => Promise<boolean> }[] = [
  { name: "the intent is written", seen: () => Promise.resolve(existsSync(rowsDirectory())) },
  { name: "the first NIC exists", seen: () => Promise.resolve(node.nics(sandbox).length >= 1) },
  { name: "all NICs exist", seen: () => Promise.resolve(node.nics(sandbox).length === 4) },
  { name: "the status reports it", seen: async () => (await networkStatus()).length === 4 },
];

function rowsDirectory(): string {
  return join(node.directory, "state", "journal", uid);
}

test.each(MOMENTS)(
  "kills the agent at a plug and an unplug once $name",
  async ({ seen: observed }) => {
    const wanted = ["net1", "net2", "net3", "net4"].map((name, index) => ({
      name: index % 2 === 0 ? "blue" : "green",
      interface: name,
    }));
    await ask(wanted);
    await eventually(observed, TIMEOUT);
    await killAgent();
    await startAgent();
    await expectStatus("net1", "net2", "net3", "net4");
    expect(node.nics(sandbox)).toEqual(["net1", "net2", "net3", "net4"]);
    expect(node.leases("blue")).toHaveLength(2);
    expect(node.bridgePorts()).toHaveLength(4);
    await ask([]);
    await eventually(() => node.nics(sandbox).length < 4, TIMEOUT);
    await killAgent();
    await startAgent();
    await expectStatus();
    expect(node.nics(sandbox)).toEqual([]);
    expect(node.leases("blue")).toEqual([]);
    expect(node.bridgePorts()).toEqual([]);
    await eventually(() => !existsSync(rowsDirectory()), TIMEOUT);
  },
);
