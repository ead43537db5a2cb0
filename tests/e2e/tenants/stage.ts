// SPDX-License-Identifier: Apache-2.0
// An attacking tenant with its programs, and a tenant that plugs NICs into its VM meanwhile.
import { spawn, type ChildProcessByStdio } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { setTimeout as delay } from "node:timers/promises";
import { names } from "@patchbay/api";
import type { KubeObject, Pod } from "@patchbay/api/kubernetes";
import { findDnsAddress } from "@patchbay/service-net/host";
import {
  bridgeNetworkManifest,
  eventually,
  FEW_PORTS,
  netnsOfPod,
  vmManifest,
} from "@patchbay/support";
import { CHANGE_MS, machine } from "../machine.ts";
import { createPerson } from "../requests/person.ts";
import type { AttackOptions } from "./attacker.ts";
import type { Counts } from "./attack-loop.ts";
import { PlugTimer } from "./plug-timer.ts";

const ATTACKER = "mallory";
/** Together they plug at most three times per second, within the rate of their changes. */
const VICTIMS = ["vera", "victor", "viola", "vito", "vincent", "violet"] as const;
const NAMESPACE = "worst";
const VM = "own";
const POD = "endpoint";
/** Runs a program with the least priority, for itself and its session, because it stands for remote clients. */
const AT_LEAST_PRIORITY = [
  "sh",
  "-c",
  'echo 19 > /proc/self/autogroup; exec nice -n 19 "$@"',
  "sh",
];
/** The attacker's requests delay each other by its shares. */
const BEGIN_MS = 420_000;
export const SERVICES = [
  "apiserver",
  "virt-api",
  "virt-controller",
  "net-agent",
  "virt-handler",
  "node-runtime",
  "service-net",
];

interface Settings {
  readonly serviceSubnet: string;
  readonly virtApiPort: number;
  readonly virtHandlerPort: number;
}

function readSettings(): Settings {
  // Written by `patchbay up`.
  return JSON.parse(readFileSync(join(machine.dataDir, "standalone.json"), "utf8")) as Settings;
}

function bind(user: string, role: string, namespace: string, kind = "ClusterRole"): unknown {
  const apiGroup = "rbac.authorization.k8s.io";
  return {
    apiVersion: `${apiGroup}/v1`,
    kind: "RoleBinding",
    metadata: { name: `${user}-${role}`, namespace },
    roleRef: { apiGroup, kind, name: role },
    subjects: [{ apiGroup, kind: "User", name: user }],
  };
}

const NETWORKS_ROLE = {
  apiVersion: "rbac.authorization.k8s.io/v1",
  kind: "Role",
  metadata: { name: "networks", namespace: NAMESPACE },
  rules: [
    { apiGroups: ["k8s.cni.cncf.io"], resources: ["network-attachment-definitions"], verbs: ["*"] },
  ],
};

/** A pod that mounts the ConfigMap `mounted`, and is an endpoint of each Service of the attacker. */
const ENDPOINT = {
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name: POD, namespace: NAMESPACE, labels: { app: "own" } },
  spec: {
    securityContext: { runAsUser: 107, runAsGroup: 107, fsGroup: 107 },
    volumes: [{ name: "map", configMap: { name: "mounted" } }],
    containers: [
      {
        name: "main",
        image: names.LAUNCHER_IMAGE,
        command: ["sh", "-c", "echo started; exec sleep 3600"],
        volumeMounts: [{ name: "map", mountPath: "/map" }],
      },
    ],
  },
};

function inNamespace(manifest: unknown): KubeObject {
  // Manifests of support are objects in `default`.
  const object = manifest as KubeObject;
  return { ...object, metadata: { ...object.metadata, namespace: NAMESPACE } };
}

function endpointPod(): Pod | undefined {
  return machine.read(`/api/v1/namespaces/${NAMESPACE}/pods/${POD}`) as Pod | undefined;
}

function isGuestRunning(): boolean {
  const path = `/apis/kubevirt.io/v1/namespaces/${NAMESPACE}/virtualmachineinstances/${VM}`;
  const vmi = machine.read(path) as { readonly status?: { readonly phase?: string } } | undefined;
  return vmi?.status?.phase === "Running";
}

export async function prepare(): Promise<void> {
  machine.patchbay("create", "namespace", NAMESPACE);
  for (const name of [ATTACKER, ...VICTIMS]) await createPerson(name);
  machine.apply(
    NETWORKS_ROLE,
    bind(ATTACKER, "edit", NAMESPACE),
    bind(ATTACKER, "networks", NAMESPACE, "Role"),
    ...VICTIMS.map((victim) => bind(victim, "edit", "default")),
    inNamespace(bridgeNetworkManifest("own", "pbt-worst")),
    { apiVersion: "v1", kind: "ConfigMap", metadata: { name: "mounted", namespace: NAMESPACE } },
    ENDPOINT,
    inNamespace(vmManifest({ name: VM, pcieRootPorts: FEW_PORTS })),
  );
  const isPodRunning = (): boolean => endpointPod()?.status?.phase === "Running";
  await eventually(() => isPodRunning() && isGuestRunning(), { withinMs: CHANGE_MS });
}

export function cleanUp(): void {
  machine.delete("namespace", NAMESPACE);
  for (const victim of VICTIMS) machine.delete("rolebinding", `${victim}-edit`);
}

export function openPlugTimer(): Promise<PlugTimer> {
  const [first, ...others] = VICTIMS;
  return PlugTimer.open([kubeconfigOf(first), ...others.map(kubeconfigOf)], "alpha");
}

function kubeconfigOf(person: string): string {
  return join(machine.dataDir, `${person}.kubeconfig`);
}

type Program = ChildProcessByStdio<Writable, Readable, null>;

/** A program of the attacker; `prefix` runs it elsewhere. */
export class Attacker {
  readonly #child: Program;
  readonly #lines: AsyncIterator<string>;

  constructor(options: AttackOptions, prefix: readonly string[] = []) {
    const script = join(import.meta.dirname, "attacker.ts");
    const node = [process.execPath, "--conditions=@patchbay/source", script];
    const [program, ...args] = [...prefix, ...AT_LEAST_PRIORITY, ...node, JSON.stringify(options)];
    this.#child = spawn(program, args, { stdio: ["pipe", "pipe", "inherit"], detached: true });
    this.#lines = createInterface(this.#child.stdout)[Symbol.asyncIterator]();
  }

  /** Resolves when each of its attacks has had a result. */
  async begun(): Promise<void> {
    const line = this.#lines.next();
    const late = delay(BEGIN_MS, "late", { ref: false });
    if ((await Promise.race([line, late])) !== "late") return;
    this.#child.stdin.end();
    const last: IteratorResult<string, unknown> = await line;
    throw new Error(`not all attacks had a result in time: ${String(last.value)}`);
  }

  /** Results of its attacks. */
  async stop(): Promise<Counts> {
    const exited = once(this.#child, "exit");
    this.#child.stdin.end();
    const last: IteratorResult<string, unknown> = await this.#lines.next();
    await exited;
    return JSON.parse(String(last.value)) as Counts;
  }

  kill(): void {
    this.#child.kill("SIGKILL");
  }
}

/** Starts the attacks with these names, or all. */
export function startAttackers(wanted: readonly string[]): readonly Attacker[] {
  const { serviceSubnet, virtApiPort, virtHandlerPort } = readSettings();
  const api = {
    kubeconfig: kubeconfigOf(ATTACKER),
    namespace: NAMESPACE,
    vm: VM,
    pod: POD,
    image: names.LAUNCHER_IMAGE,
    network: "own",
    ports: [virtApiPort, virtHandlerPort],
  };
  const { path } = netnsOfPod(machine.dataDir, endpointPod()?.metadata.uid ?? "");
  const dnsAddress = findDnsAddress(serviceSubnet);
  return [
    new Attacker({ names: wanted, api }),
    new Attacker({ names: wanted, dnsAddress }, ["nsenter", `--net=${path}`]),
  ];
}

/** Clock ticks per second of process times. Source: proc(5). */
const TICKS = 100;

/** Processor time of a service and its ended children, milliseconds. Source: proc(5), fields 14 to 17 of stat. */
function processorMs(service: string): number {
  const stat = readFileSync(`/proc/${String(machine.pidOf(service))}/stat`, "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
  return (ticks * 1000) / TICKS;
}

interface Measured {
  readonly plugsMs: readonly number[];
  readonly unplugsMs: readonly number[];
  readonly seconds: number;
  /** Processor time of each service, milliseconds. */
  readonly processorMs: readonly number[];
}

export async function measure(
  timer: PlugTimer,
  { plugs, leastMs }: { readonly plugs: number; readonly leastMs: number },
): Promise<Measured> {
  const before = SERVICES.map(processorMs);
  const startMs = performance.now();
  const plugsMs: number[] = [];
  const unplugsMs: number[] = [];
  while (plugsMs.length < plugs || performance.now() - startMs < leastMs) {
    const [plugMs, unplugMs] = await timer.round("timed", "blue");
    plugsMs.push(plugMs);
    unplugsMs.push(unplugMs);
  }
  const seconds = (performance.now() - startMs) / 1000;
  const after = SERVICES.map(processorMs);
  const spent = after.map((ms, index) => ms - (before[index] ?? 0));
  return { plugsMs, unplugsMs, seconds, processorMs: spent };
}

/** Nearest rank. */
export function percentile(values: readonly number[], part: number): number {
  const sorted = values.toSorted((left, right) => left - right);
  return sorted[Math.ceil(part * sorted.length) - 1] ?? NaN;
}

export function print(rest: Measured, attack: Measured, counts: Counts): void {
  const rows = [
    ["at rest", rest],
    ["attack", attack],
  ] as const;
  const times = rows.map(([when, { plugsMs, unplugsMs, seconds }]) => ({
    when,
    seconds: Math.round(seconds),
    plugs: plugsMs.length,
    "plug p50, ms": Math.round(percentile(plugsMs, 0.5)),
    p90: Math.round(percentile(plugsMs, 0.9)),
    p99: Math.round(percentile(plugsMs, 0.99)),
    max: Math.round(percentile(plugsMs, 1)),
    "unplug p50, ms": Math.round(percentile(unplugsMs, 0.5)),
    "unplug p99, ms": Math.round(percentile(unplugsMs, 0.99)),
  }));
  const processors = SERVICES.map((service, index) => ({
    service,
    "at rest, % of a core": Math.round((rest.processorMs[index] ?? 0) / rest.seconds / 10),
    "attack, % of a core": Math.round((attack.processorMs[index] ?? 0) / attack.seconds / 10),
  }));
  const attacks = Object.entries(counts).map(([attackName, results]) => ({
    attack: attackName,
    results: Object.entries(results)
      .map(([result, count]) => `${result}: ${String(count)}`)
      .join(", "),
  }));
  console.table(times);
  console.table(processors);
  console.table(attacks);
}
