// SPDX-License-Identifier: Apache-2.0
// Memory of each service after a tenant has filled its namespace up to the default quota, with each kind of objects.
import { join } from "node:path";
import { readFileSync, writeFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { names } from "@patchbay/api";
import { createKubeClient, loadKubeConfig, type KubeClient } from "@patchbay/kube";
import { createClock } from "@patchbay/os";
import { createSilentLogger } from "@patchbay/telemetry";
import { endTrial, eventually, type Machine } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { bringUp } from "../../e2e/standalone.ts";
import { evaluateIn } from "../../faults/inspector.ts";

const NAMESPACE = "worst";
const CORE = `/api/v1/namespaces/${NAMESPACE}`;
const KIB = 1024;
/** Allowed ratio of a service's memory to its memory at rest. */
const RATIO_MAX = 2;
const UP_MS = 180_000;
const TEST_MS = 600_000;
const SETTLE_MS = 180_000;
/** Requests at once. */
const WORKERS = 8;
const SERVICES = [
  "apiserver",
  "virt-api",
  "virt-controller",
  "net-agent",
  "virt-handler",
  "node-runtime",
  "service-net",
];

let machine: Machine;
let client: KubeClient;
let rest: Memories;
const filled: Filled[] = [];

beforeAll(async () => {
  const networks = { podSubnet: "10.88.246.0/24", serviceSubnet: "10.115.0.0/16" };
  machine = await bringUp({ apiPort: 17043, bridge: "pbm0", ...networks }, () => Promise.resolve());
  const config = await loadKubeConfig({ kubeconfig: join(machine.dataDir, "kubeconfig") });
  client = createKubeClient(config, { logger: createSilentLogger(), clock: createClock() });
  machine.patchbay("create", "namespace", NAMESPACE);
  await rested();
  rest = await measure();
}, UP_MS);

afterAll(async () => {
  print();
  await client.close();
  endTrial(machine);
}, UP_MS);

interface Collection {
  readonly path: string;
  readonly build: (name: string, index: number) => object;
  /** Number of objects; fewer if the quota refuses more. */
  readonly count: number;
}

const RESOURCES: Readonly<Record<string, string>> = {
  VirtualMachine: "virtualmachines",
  VirtualMachineInstancetype: "virtualmachineinstancetypes",
  NetworkAttachmentDefinition: "network-attachment-definitions",
  NetworkPolicy: "networkpolicies",
  EndpointSlice: "endpointslices",
};

interface Scenario {
  readonly name: string;
  readonly collections: readonly Collection[];
  /** Waits until services have seen the objects. */
  readonly settled?: () => Promise<void>;
}

function vmSpec(nodeSelector: object, annotations: object): object {
  return {
    metadata: { annotations },
    spec: {
      nodeSelector,
      domain: {
        memory: { guest: "64Mi" },
        firmware: {
          kernelBoot: {
            container: { image: "guest", kernelPath: "/vmlinux", initrdPath: "/initrd" },
          },
        },
        devices: { interfaces: [{ name: "a", bridge: {} }] },
      },
      networks: [{ name: "a", pod: {} }],
    },
  };
}

function collection(
  apiVersion: string,
  kind: string,
  { build, count }: Omit<Collection, "path">,
): Collection {
  return {
    path: `/apis/${apiVersion}/namespaces/${NAMESPACE}/${RESOURCES[kind] ?? ""}`,
    build: (name, index) => ({ apiVersion, kind, ...build(name, index) }),
    count,
  };
}

/** V8 stores two bytes for each character of a string that has one outside of Latin-1. */
const WIDE = "✓";

function note(bytes: number): object {
  return { note: `${WIDE}${"x".repeat(bytes - Buffer.byteLength(WIDE))}` };
}

const stoppedVms = collection("kubevirt.io/v1", "VirtualMachine", {
  count: 40,
  build: () => ({
    metadata: { annotations: note(255 * KIB) },
    spec: { runStrategy: "Halted", template: vmSpec({}, note(255 * KIB)) },
  }),
});

/** Their annotations are also those of a VMI and a launcher pod each. */
const waitingVms = collection("kubevirt.io/v1", "VirtualMachine", {
  count: 30,
  build: () => ({
    spec: { runStrategy: "Always", template: vmSpec({ none: "such" }, note(160 * KIB)) },
  }),
});

function podsWith(annotations: object, volumes: readonly object[] = []): Collection {
  return {
    path: `${CORE}/pods`,
    count: 70,
    build: () => ({
      metadata: { annotations },
      spec: {
        terminationGracePeriodSeconds: 0,
        securityContext: { runAsUser: 107, runAsGroup: 107, fsGroup: 107 },
        containers: [{ name: "main", image: names.LAUNCHER_IMAGE, command: ["sleep", "3600"] }],
        volumes,
      },
    }),
  };
}

const CONFIG_MAPS = 210;
const configMaps: Collection = {
  path: `${CORE}/configmaps`,
  count: CONFIG_MAPS,
  build: () => ({ data: note(76 * KIB) }),
};

/** Mounts 64 × 3 of the ConfigMaps. */
const mounts = Array.from({ length: 64 }, (_none, index) => ({
  name: `v${String(index)}`,
  projected: {
    sources: [0, 1, 2].map((part) => ({
      configMap: { name: `o-${String(index * 3 + part)}`, optional: true },
    })),
  },
}));
const mountingPod: Collection = { ...podsWith({}, mounts), count: 1 };

const networks = collection("k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition", {
  count: 60,
  build: (name) => {
    const config = { cniVersion: "0.4.0", type: "bridge", name, x: "" };
    const rest = 64 * KIB - JSON.stringify(config).length;
    return {
      metadata: { annotations: note(250 * KIB) },
      spec: { config: JSON.stringify({ ...config, x: "x".repeat(rest) }) },
    };
  },
});

const PORTS = Array.from({ length: 256 }, (_none, index) => ({
  name: `p${String(index)}`,
  port: 1000 + index,
}));

const services: Collection = {
  path: `${CORE}/services`,
  count: 40,
  build: () => ({ spec: { ports: PORTS } }),
};

/** As many endpoints as ports × (endpoints + 1) of the namespace may have. */
const endpoints = collection("discovery.k8s.io/v1", "EndpointSlice", {
  count: 30,
  build: (name, index) => ({
    metadata: { labels: { "kubernetes.io/service-name": name } },
    addressType: "IPv4",
    ports: PORTS.map(({ name: portName, port }) => ({ name: portName, port })),
    endpoints: Array.from({ length: 12 }, (_none, at) => ({
      addresses: [`10.1.${String(index)}.${String(at + 1)}`],
    })),
  }),
});

const MANY = 100_000;
const smallSlices = collection("discovery.k8s.io/v1", "EndpointSlice", {
  count: MANY,
  build: () => ({ addressType: "IPv4", endpoints: [{ addresses: ["10.1.0.1"] }], ports: [] }),
});
const smallPolicies = collection("networking.k8s.io/v1", "NetworkPolicy", {
  count: MANY,
  build: () => ({ spec: { podSelector: { matchLabels: { a: "b" } } } }),
});
/** As many rules as a policy may have, of 3 bytes each. Services cache an object for each. */
const widePolicies = collection("networking.k8s.io/v1", "NetworkPolicy", {
  count: MANY,
  build: () => ({
    spec: { podSelector: {}, ingress: Array.from({ length: 1024 }, () => ({})) },
  }),
});
const smallInstancetypes = collection(
  "instancetype.kubevirt.io/v1beta1",
  "VirtualMachineInstancetype",
  { count: MANY, build: () => ({ spec: { cpu: { guest: 1 }, memory: { guest: "1Mi" } } }) },
);
/** All pods that have no nodeSelector. */
async function podsRun(): Promise<void> {
  const query = "fieldSelector=status.phase%3DPending";
  await eventually(
    () => {
      const { items } = machine.read(`${CORE}/pods?${query}`) as { readonly items: unknown[] };
      return items.length === 0;
    },
    { withinMs: SETTLE_MS },
  );
}

/** The quota may refuse the pods of some VMs. */
async function launchersWait(): Promise<void> {
  await eventually(
    () => {
      const { items } = machine.read(`${CORE}/pods`) as { readonly items: unknown[] };
      return items.length > 0;
    },
    { withinMs: SETTLE_MS },
  );
}

const SCENARIOS: readonly Scenario[] = [
  { name: "stopped VMs with 510 KiB of annotations", collections: [stoppedVms] },
  {
    name: "VMs without a node, 160 KiB of annotations",
    collections: [waitingVms],
    settled: launchersWait,
  },
  { name: "ConfigMaps and a pod", collections: [configMaps, mountingPod], settled: podsRun },
  { name: "definitions of 64 KiB", collections: [networks] },
  { name: "Services with 100,000 forwardings", collections: [services, endpoints] },
  { name: "policies of 1,024 empty rules", collections: [widePolicies] },
  { name: "small EndpointSlices", collections: [smallSlices] },
  { name: "small network policies", collections: [smallPolicies] },
  { name: "small instancetypes", collections: [smallInstancetypes] },
  // The last one, because the node deletes a pod in about a second.
  {
    name: "pods with 255 KiB of annotations",
    collections: [podsWith(note(255 * KIB))],
    settled: podsRun,
  },
];

/** Creates objects until the quota refuses one. Returns their number. */
async function fill({ path, build, count }: Collection): Promise<number> {
  let next = 0;
  let stored = 0;
  let refusal = "";
  const work = async (): Promise<void> => {
    while (next < count && refusal === "") {
      const index = next;
      next += 1;
      const name = `o-${String(index)}`;
      const { metadata, ...object } = build(name, index) as { readonly metadata?: object };
      const body = { ...object, metadata: { ...metadata, name } };
      const { status, text } = await client.exchange({ method: "POST", path, body });
      if (status === 201) stored += 1;
      else refusal = text;
    }
  };
  await Promise.all(Array.from({ length: WORKERS }, work));
  const isExpected = refusal === "" || refusal.includes("exceeded quota");
  if (!isExpected) throw new Error(refusal.slice(0, 2000));
  expect(stored).toBeGreaterThan(0);
  return stored;
}

/** Deletes the objects and waits until they are gone. */
async function empty({ path }: Collection): Promise<void> {
  await client.exchange({ method: "DELETE", path, timeoutMs: UP_MS });
  await eventually(
    async () => {
      const { text } = await client.exchange({ method: "GET", path, query: { limit: "10" } });
      return !text.includes('"name":"o-');
    },
    { withinMs: SETTLE_MS },
  );
}

function storedBytes(): string {
  const quota = machine.read(`${CORE}/resourcequotas/tenant`) as {
    readonly status?: { readonly used?: Readonly<Record<string, string>> };
  };
  return quota.status?.used?.["patchbay.io/stored-bytes"] ?? "";
}

/** Processor time of a service, in clock ticks. Source: proc(5), fields 14 and 15 of stat. */
function ticksOf(service: string): number {
  const stat = readFileSync(`/proc/${String(machine.pidOf(service))}/stat`, "utf8");
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return Number(fields[11]) + Number(fields[12]);
}

/** Ticks of all services in a second, of which 100 are a core: at rest only leases and probes. */
const REST_TICKS = 10;

async function rested(): Promise<void> {
  const sum = (): number => SERVICES.reduce((total, service) => total + ticksOf(service), 0);
  await eventually(
    async () => {
      const before = sum();
      await delay(1000);
      return sum() - before <= REST_TICKS;
    },
    { withinMs: SETTLE_MS },
  );
}

interface Memory {
  /** Resident bytes after a garbage collection. */
  readonly resident: number;
  /** Highest resident bytes since the last measurement. */
  readonly peak: number;
}

/** Attempts, because V8 returns memory to the kernel some time after a garbage collection. */
const ATTEMPTS = 3;
const ATTEMPT_PAUSE_MS = 2000;

/** Measures until the memory is within the limit. */
async function memoryOf(service: string, limit: number): Promise<Memory> {
  const pid = machine.pidOf(service);
  const status = readFileSync(`/proc/${String(pid)}/status`, "utf8");
  const peak = Number(/^VmHWM:\s*(\d+)/m.exec(status)?.[1]) * KIB;
  let resident = NaN;
  for (let attempt = 0; attempt < ATTEMPTS && !(resident <= limit); attempt += 1) {
    if (attempt > 0) await delay(ATTEMPT_PAUSE_MS);
    resident = Number(await evaluateIn(pid, "process.memoryUsage().rss"));
  }
  // Resets the peak. Source: proc(5), clear_refs.
  writeFileSync(`/proc/${String(pid)}/clear_refs`, "5");
  return { resident, peak };
}

type Memories = Readonly<Record<string, Memory>>;

function limitOf(service: string): number {
  return RATIO_MAX * (rest[service]?.resident ?? NaN);
}

/** Sequential, because the services share one inspector port. */
async function measure(limit: (service: string) => number = () => Infinity): Promise<Memories> {
  const memories: Record<string, Memory> = {};
  for (const service of SERVICES) memories[service] = await memoryOf(service, limit(service));
  return memories;
}

interface Filled {
  readonly scenario: string;
  readonly stored: string;
  readonly memories: Memories;
}

function megabytes(bytes: number): number {
  return Math.round(bytes / 1e6);
}

function rowOf(label: string, memories: Memories): Readonly<Record<string, string>> {
  const cells = Object.entries(memories).map(
    ([service, { resident, peak }]) =>
      [service, `${String(megabytes(resident))} (${String(megabytes(peak))})`] as const,
  );
  return { label, ...Object.fromEntries(cells) };
}

function print(): void {
  console.log("resident memory after a garbage collection (highest before), MB");
  console.table([
    rowOf("at rest", rest),
    ...filled.map(({ scenario, memories }) => rowOf(scenario, memories)),
  ]);
  console.table(filled.map(({ scenario, stored }) => ({ scenario, stored })));
}

/** Collections of the scenario before, which the next one empties: the end of the machine removes the last one's objects. */
let full: readonly Collection[] = [];

test.each(SCENARIOS)(
  "no service needs more than twice its memory at rest: $name",
  async ({ name, collections, settled }) => {
    for (const each of full.toReversed()) await empty(each);
    full = collections;
    const counts: number[] = [];
    for (const each of collections) counts.push(await fill(each));
    await settled?.();
    await rested();
    const stored = `${counts.join(" + ")} objects, ${storedBytes()}`;
    const memories = await measure(limitOf);
    filled.push({ scenario: name, stored, memories });
    const exceeding = Object.entries(memories)
      .map(([service, { resident }]) => ({ service, resident, limit: limitOf(service) }))
      .filter(({ resident, limit }) => !(resident <= limit));
    expect(exceeding).toEqual([]);
  },
  TEST_MS,
);
