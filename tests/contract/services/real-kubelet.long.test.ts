// SPDX-License-Identifier: Apache-2.0
// A real node's kubelet statuses, silent runtime and namespaces, with our controller and agents.
import { execFile, execFileSync, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { existsSync, linkSync, mkdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import {
  EVENTS,
  names,
  NETWORK_ATTACHMENT_DEFINITIONS,
  PODS,
  VIRTUAL_MACHINE_INSTANCES,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { parseAttachmentErrors, parseNetworkStatus } from "@patchbay/api/annotations";
import type { Pod } from "@patchbay/api/kubernetes";
import { FakeCriSandboxes } from "@patchbay/cri/testing";
import { DaemonHealth } from "@patchbay/daemon/testing";
import type { KubeClient } from "@patchbay/kube";
import { createMetrics } from "@patchbay/telemetry";
import { eventually, executableOf, vmiManifest } from "@patchbay/support";
import { startTestServer, type TestServer } from "@patchbay/support/api-server";
import { afterAll, beforeAll, expect, test } from "vitest";
import { runAgent } from "../../../packages/control-plane/net-agent/src/compose.ts";
import { parseFlags as agentFlags } from "../../../packages/control-plane/net-agent/src/config.ts";
import {
  startController,
  type Controller,
} from "../../../packages/control-plane/virt-controller/src/testing/controllers.ts";
import { runHandler } from "../../../packages/control-plane/virt-handler/src/compose.ts";
import { CniNode } from "../cni/node.ts";
import { REFUSED_STATUS, runningStatus } from "./kubelet-words.ts";

const NODE = "node-1";
const NAMESPACE = "default";
const TIMEOUT = { withinMs: 20_000 };

const node = new CniNode();
const stop = new AbortController();
let server: TestServer;
let admin: KubeClient;
let controller: Controller;
let runtime: FakeCriSandboxes;
let host: ChildProcess;
let agents: Promise<unknown>;

/** The node's files: plugins, a dead runtime's leftovers, and the live runtime's socket. */
const FILES = `
  mount -t tmpfs plugins "$1" && cp /usr/lib/cni/ptp /usr/lib/cni/host-local "$1"
  mount -t tmpfs run "$4" && mkdir "$4/netns" "$4/containerd" "$4/crio"
  mount --rbind /run/netns "$4/netns" && mount --rbind "$4" /run
  ln -s "$2" /run/containerd/containerd.sock && ln -s "$3" /run/crio/crio.sock
  echo there && exec sleep 600`;

/** A process of the node with a private view of them. */
async function startHost(): Promise<ChildProcess> {
  const run = join(node.directory, "run");
  // The first namespace of a machine makes /run/netns a mount of its own, which propagates to copies. Source:
  // ip-netns(8)
  const first = `pb-kubelet-${String(process.pid)}`;
  for (const verb of ["add", "delete"]) execFileSync("ip", ["netns", verb, first]);
  for (const directory of [node.binDir, run]) mkdirSync(directory);
  const sockets = [await makeRefusingSocket(), runtime.endpoint.replace("unix://", "")];
  const argv = [
    "--mount",
    "--propagation",
    "slave",
    "sh",
    "-ec",
    FILES,
    "sh",
    node.binDir,
    ...sockets,
    run,
  ];
  const child = spawn("unshare", argv, { stdio: ["ignore", "pipe", "inherit"] });
  await once(child.stdout, "data");
  return child;
}

/** A socket without a listener, as a dead runtime leaves one. */
async function makeRefusingSocket(): Promise<string> {
  const path = join(node.directory, "dead.sock");
  const dying = createServer().listen(`${path}.first`);
  await once(dying, "listening");
  linkSync(`${path}.first`, path);
  dying.close();
  await once(dying, "close");
  return path;
}

async function startAgents(): Promise<void> {
  const { clock, log } = server;
  const { promise: ready, resolve } = Promise.withResolvers<undefined>();
  let starting = 2;
  const contextFor = async (account: string) => ({
    clock,
    log,
    metrics: createMetrics(account),
    drainSignal: stop.signal,
    signal: stop.signal,
    client: await server.client(`system:serviceaccount:patchbay:${account}`),
    health: new DaemonHealth({ clock, log }),
    ready: () => {
      starting -= 1;
      if (starting === 0) resolve(undefined);
    },
  });
  const flags = {
    nodeName: NODE,
    relayAddress: "127.0.0.1",
    hostProcess: host.pid ?? 0,
    concurrency: 4,
    dataplaneGroup: 0,
    logLevel: "error",
  } as const;
  const own = { cniBinDir: [node.binDir], cniCacheDir: [], mode: "alone" } as const;
  const at = (name: string): string => join(node.directory, name);
  agents = Promise.all([
    runAgent(await contextFor("net-agent"), {
      ...agentFlags(["node", "net-agent"]),
      ...flags,
      ...own,
      stateDir: at("net-agent"),
    }),
    runHandler(await contextFor("virt-handler"), {
      ...flags,
      podsDir: at("pods"),
      stateDir: at("virt-handler"),
      // No client uses its guests.
      listenAddress: "127.0.0.1",
      clientName: "virt-api",
      tlsCertFile: "",
      tlsPrivateKeyFile: "",
      clientCaFile: "",
    }),
  ]);
  await Promise.race([ready, agents]);
}

beforeAll(async () => {
  server = await startTestServer();
  admin = await server.client("kubernetes-admin", ["system:masters"]);
  const config = await server.kubeconfig("kubernetes-admin", ["system:masters"]);
  writeFileSync(join(node.directory, "kubeconfig"), config);
  runtime = await FakeCriSandboxes.start();
  host = await startHost();
  const ipam = { type: "host-local", dataDir: node.leaseDir, subnet: "10.55.9.0/24" };
  const plugin = { cniVersion: "1.0.0", name: "blue", type: "ptp", ipam };
  await admin.store.create(NETWORK_ATTACHMENT_DEFINITIONS, {
    apiVersion: "k8s.cni.cncf.io/v1",
    kind: NETWORK_ATTACHMENT_DEFINITIONS.kind,
    metadata: { namespace: NAMESPACE, name: "blue" },
    spec: { config: JSON.stringify(plugin) },
  });
  controller = await startController(server);
  await startAgents();
});

afterAll(async () => {
  stop.abort(new Error("the test is over"));
  await agents;
  await controller.stop();
  await server.close();
  runtime.close();
  host.kill("SIGKILL");
  node.close();
});

async function launcherOf(vmi: string): Promise<Pod> {
  return eventually(async () => {
    const { items } = await admin.store.list(PODS, { namespace: NAMESPACE });
    return items.find(({ metadata }) => metadata.annotations?.[names.DOMAIN_ANNOTATION] === vmi);
  }, TIMEOUT);
}

/** A VMI with its launcher on the node. */
async function startVmi(name: string): Promise<Pod> {
  const nics = [{ name: "default" }, { name: "one", network: "blue" }];
  const body = vmiManifest({ name, nics }) as VirtualMachineInstance;
  await admin.store.create(VIRTUAL_MACHINE_INSTANCES, body);
  const pod = await launcherOf(name);
  const path = `/api/v1/namespaces/${NAMESPACE}/pods/${pod.metadata.name}/binding`;
  const target = { apiVersion: "v1", kind: "Node", name: NODE };
  const { metadata } = pod;
  const binding = { apiVersion: "v1", kind: "Binding", metadata: { name: metadata.name }, target };
  await admin.requestRaw({ method: "POST", path, body: binding });
  return pod;
}

async function tell({ metadata: { name } }: Pod, status: object): Promise<void> {
  const patch = { type: "merge", fields: { status } } as const;
  await admin.store.patch(PODS, { namespace: NAMESPACE, name }, patch, { subresource: "status" });
}

async function vmiStatus(name: string): Promise<NonNullable<VirtualMachineInstance["status"]>> {
  return (
    (await admin.store.find(VIRTUAL_MACHINE_INSTANCES, { namespace: NAMESPACE, name }))?.status ??
    {}
  );
}

async function patchbay(...args: readonly string[]): Promise<string> {
  const argv = [...args, "--kubeconfig", join(node.directory, "kubeconfig")];
  const { stdout } = await promisify(execFile)(executableOf("patchbay"), argv);
  return stdout;
}

function readyOf({ conditions = [] }: NonNullable<VirtualMachineInstance["status"]>) {
  return conditions.find(({ type }) => type === "Ready");
}

test("reports a silent runtime on pod, VMI and command line, and continues once it answers", async () => {
  runtime.isAway = true;
  const pod = await startVmi("vm1");
  const { name, uid = "" } = pod.metadata;
  const sandbox = node.addSandbox({ uid, namespace: NAMESPACE, name });
  runtime.put(sandbox);
  await tell(pod, runningStatus(["10.244.0.7", "fd00:10:244::7"]));
  const annotations = async () =>
    (await admin.store.find(PODS, { namespace: NAMESPACE, name }))?.metadata.annotations ?? {};
  const errors = async () =>
    parseAttachmentErrors((await annotations())[names.ATTACHMENT_ERRORS_ANNOTATION]);
  const reason = "RuntimeUnavailable";
  await eventually(async () => Object.values(await errors()).length > 0, TIMEOUT);
  expect(Object.values(await errors())).toMatchObject([{ reason }]);
  await eventually(async () => readyOf(await vmiStatus("vm1"))?.reason === reason, TIMEOUT);
  expect(await vmiStatus("vm1")).toMatchObject({ nodeName: NODE, activePods: { [uid]: NODE } });
  expect(await patchbay("explain", "vm1", "one")).toContain(reason);
  const { items } = await admin.store.list(EVENTS, { namespace: NAMESPACE });
  const reported = items.filter((event) => event.reason === reason && event.type === "Warning");
  expect(new Set(reported.map(({ involvedObject }) => involvedObject.kind))).toContain("Pod");

  runtime.isAway = false;
  const status = async () =>
    parseNetworkStatus((await annotations())[names.NETWORK_STATUS_ANNOTATION]);
  await eventually(async () => (await status()).some(({ ips = [] }) => ips.length > 0), TIMEOUT);
  expect(node.nics(sandbox)).toHaveLength(1);
  // The plugins exist only in the node's mount namespace.
  expect(existsSync(join(node.binDir, "ptp"))).toBe(false);
  await eventually(async () => Object.values(await errors()).length === 0, TIMEOUT);
  await eventually(async () => {
    const { attachments = [] } = await vmiStatus("vm1");
    return attachments.some((one) => one.name === "one" && one.state === "Attached");
  }, TIMEOUT);
});

test("a launcher that the kubelet rejected reports why and has no ready NIC", async () => {
  const pod = await startVmi("vm2");
  await tell(pod, REFUSED_STATUS);
  await eventually(async () => (await vmiStatus("vm2")).phase === "Failed", TIMEOUT);
  const { reason, message } = REFUSED_STATUS;
  const status = await vmiStatus("vm2");
  expect(status.reason).toBe(reason);
  expect(readyOf(status)).toMatchObject({ status: "False", reason, message });
  expect(await patchbay("get", "interfaces", "vm2")).not.toContain("Ready");
  expect(await patchbay("explain", "vm2", "one")).toContain(reason);
});
