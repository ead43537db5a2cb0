// SPDX-License-Identifier: Apache-2.0
// Many pods with two networks each start at once: net-agent's time compared with a shell loop of the same plugins, and
// its memory.
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { names, NETWORK_ATTACHMENT_DEFINITIONS, PODS } from "@patchbay/api";
import { parseNetworkStatus } from "@patchbay/api/annotations";
import type { Pod } from "@patchbay/api/kubernetes";
import { FakeCriSandboxes } from "@patchbay/cri/testing";
import { createCache, createKubeClient, loadKubeConfig, type KubeClient } from "@patchbay/kube";
import { install, parseManifests, readManifests } from "@patchbay/manifests";
import { createClock, createFiles } from "@patchbay/os";
import type { Cache, Sandbox } from "@patchbay/core/interfaces";
import { createSilentLogger } from "@patchbay/telemetry";
import { CniNode } from "../../contract/cni/node.ts";
import { openServer } from "../control-plane/server.ts";
import { processorMs, Service } from "../control-plane/service.ts";

const NODE = "node-1";
const NAMESPACE = "default";
const PLUGINS = "/usr/lib/cni";
const NETWORKS = ["one", "two"];
const AT_ONCE = 8;

/** Duration of one method, seconds. */
interface Times {
  readonly up: number;
  readonly down: number;
}

function seconds(sinceMs: number): number {
  return (performance.now() - sinceMs) / 1000;
}

/** A network's list of one plugin; both methods assign their own addresses. */
function configOf(node: CniNode, index: number, way: "agent" | "hand"): object {
  const subnet = `10.${way === "agent" ? "61" : "62"}.${String(index)}.0/24`;
  const ipam = { type: "host-local", dataDir: node.leaseDir, subnet };
  const bridge = node.nameLink(`${way.slice(0, 1)}${String(index)}`);
  return { cniVersion: "1.0.0", name: `${way}${String(index)}`, type: "bridge", bridge, ipam };
}

/** A process's peak memory, MB of 10^6 bytes. */
function mostMb(pid: number): number {
  const status = readFileSync(`/proc/${String(pid)}/status`, "utf8");
  return (Number(/VmHWM:\s+(\d+)/.exec(status)?.[1]) * 1024) / 1e6;
}

/** Like a shell, with limited concurrency. */
function byHand(node: CniNode, sandboxes: readonly Sandbox[], atOnce: number): Times {
  const files = NETWORKS.map((network, index) => {
    const file = join(node.directory, `${network}.json`);
    writeFileSync(file, JSON.stringify(configOf(node, index, "hand")));
    return file;
  });
  const run = (command: string): number => {
    const lines = sandboxes.flatMap(({ id }) =>
      files.map((file, index) => `${command} ${id} net${String(index + 1)} ${file}`),
    );
    const sinceMs = performance.now();
    execFileSync(join(import.meta.dirname, "by-hand.sh"), [String(atOnce), PLUGINS], {
      input: `${lines.join("\n")}\n`,
      stdio: ["pipe", "ignore", "inherit"],
    });
    return seconds(sinceMs);
  };
  return { up: run("ADD"), down: run("DEL") };
}

async function putNetworks(client: KubeClient, node: CniNode): Promise<void> {
  const objects = parseManifests(await readManifests(createFiles(), "net-agent-only"));
  await install(client.store, { objects, dryRun: false, report: () => undefined });
  const { kind } = NETWORK_ATTACHMENT_DEFINITIONS;
  for (const [index, name] of NETWORKS.entries()) {
    await client.store.create(NETWORK_ATTACHMENT_DEFINITIONS, {
      apiVersion: "k8s.cni.cncf.io/v1",
      kind,
      metadata: { namespace: NAMESPACE, name },
      spec: { config: JSON.stringify(configOf(node, index, "agent")) },
    });
  }
}

async function runPod(client: KubeClient, node: CniNode, name: string): Promise<Sandbox> {
  const annotations = { [names.NETWORKS_ANNOTATION]: NETWORKS.join(",") };
  const pod = await client.store.create(PODS, {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { namespace: NAMESPACE, name, annotations },
    spec: { nodeName: NODE, containers: [{ name: "c", image: "i:1" }] },
  });
  const fields = { status: { phase: "Running" } };
  const key = { namespace: NAMESPACE, name };
  await client.store.patch(PODS, key, { type: "merge", fields }, { subresource: "status" });
  return node.addSandbox({ ...key, uid: pod.metadata.uid ?? "" });
}

/** Resolves when each pod reports so many NICs; reads only changes, to save time for the measured processes. */
async function untilAll(pods: Cache<Pod>, count: number): Promise<void> {
  const isThere = ({ metadata }: Pod): boolean =>
    parseNetworkStatus(metadata.annotations?.[names.NETWORK_STATUS_ANNOTATION]).length === count;
  const { promise, resolve } = Promise.withResolvers<undefined>();
  const missing = new Set(pods.list().map(({ metadata }) => metadata.name));
  const look = (pod: Pod): void => {
    if (isThere(pod)) missing.delete(pod.metadata.name);
    if (missing.size === 0) resolve(undefined);
  };
  const unsubscribe = pods.onChange((change) => {
    if (change.kind !== "deleted") look(change.current);
  });
  for (const pod of pods.list()) look(pod);
  await promise;
  unsubscribe();
}

async function askAll(client: KubeClient, pods: Cache<Pod>, networks: string): Promise<void> {
  const fields = { metadata: { annotations: { [names.NETWORKS_ANNOTATION]: networks } } };
  const change = ({ metadata: { name } }: Pod): Promise<unknown> =>
    client.store.patch(PODS, { namespace: NAMESPACE, name }, { type: "merge", fields });
  await Promise.all(pods.list().map(change));
}

/** Measures `count` pods with both methods. */
export async function measureCni(count: number): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), "perf-cni-"));
  const node = new CniNode();
  const server = await openServer(directory);
  const runtime = await FakeCriSandboxes.start();
  const stop = new AbortController();
  let agent: Service | undefined;
  const logger = createSilentLogger();
  const config = await loadKubeConfig({ kubeconfig: server.kubeconfig });
  const client = createKubeClient(config, { logger, clock: createClock() });
  try {
    await putNetworks(client, node);
    const sandboxes: Sandbox[] = [];
    for (let index = 0; index < count; index += 1) {
      const sandbox = await runPod(client, node, `pod-${String(index)}`);
      sandboxes.push(sandbox);
      runtime.put(sandbox);
    }
    const pods = createCache(client.reflect(PODS), { logger });
    pods.start(stop.signal);
    await pods.synced();
    const alone = byHand(node, sandboxes, 1);
    const hand = byHand(node, sandboxes, AT_ONCE);
    const sinceMs = performance.now();
    agent = await Service.start("net-agent", [
      "--kubeconfig",
      server.kubeconfig,
      "--node-name",
      NODE,
      "--cri-endpoint",
      runtime.endpoint,
      "--state-dir",
      join(directory, "state"),
      "--cni-bin-dir",
      PLUGINS,
      "--mode",
      "alone",
    ]);
    await untilAll(pods, NETWORKS.length);
    const up = seconds(sinceMs);
    const processor = [agent.pid, server.pid ?? 0].map((pid) => processorMs(pid) / 1000);
    const downMs = performance.now();
    await askAll(client, pods, "");
    await untilAll(pods, 0);
    const down = seconds(downMs);
    const memory = mostMb(agent.pid);
    print(count, { alone, hand, agent: { up, down }, readyMs: agent.readyMs, memory, processor });
  } finally {
    await agent?.stop();
    stop.abort(new Error("measured"));
    await client.close();
    await server.close();
    runtime.close();
    node.close();
    rmSync(directory, { recursive: true, force: true });
  }
}

function print(
  count: number,
  all: {
    readonly alone: Times;
    readonly hand: Times;
    readonly agent: Times;
    readonly readyMs: number;
    readonly memory: number;
    /** Processor time of net-agent and the API server when all were up, seconds. */
    readonly processor: readonly number[];
  },
): void {
  const { alone, hand, agent, readyMs, memory, processor } = all;
  const [own = 0, served = 0] = processor;
  const row = (label: string, { up, down }: Times): string =>
    `${label.padEnd(52)}${up.toFixed(2).padStart(9)} s${down.toFixed(2).padStart(9)} s`;
  const ratio = (one: number, other: number): string => `${(one / other).toFixed(2).padStart(9)}  `;
  const ratios = (label: string, { up, down }: Times): string =>
    `${label.padEnd(52)}${ratio(agent.up, up)}${ratio(agent.down, down)}`;
  const lines = [
    `${String(count)} pods with ${String(NETWORKS.length)} networks at once`.padEnd(52) +
      "      ADD        DEL",
    row("shell, one plugin after the other", alone),
    row(`shell, ${String(AT_ONCE)} plugins at once`, hand),
    row("net-agent, from its start to the last status", agent),
    ratios("net-agent by the shell's loop", alone),
    ratios("net-agent by the shell's plugins at once", hand),
    `net-agent: ready ${(readyMs / 1000).toFixed(2)} s after its start, at most ${memory.toFixed(0)} MB`,
    `processor time until all was up: net-agent ${own.toFixed(2)} s, API server ${served.toFixed(2)} s`,
  ];
  process.stdout.write(`${lines.join("\n")}\n`);
}
