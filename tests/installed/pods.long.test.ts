// SPDX-License-Identifier: Apache-2.0
// The manifests' pods run a machine in place of its own services: a VM starts, a NIC is plugged and unplugged, and each
// pod is killed once meanwhile. API server, containerd and node-runtime stay.
import { execFileSync } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import {
  VIRTUAL_MACHINES,
  type IfaceStatus,
  type KubeVirt,
  type VirtualMachine,
} from "@patchbay/api";
import type { Lease, Pod } from "@patchbay/api/kubernetes";
import { createKubeClient, loadKubeConfig, type KubeClient } from "@patchbay/kube";
import { install, parseManifests, readManifests } from "@patchbay/manifests";
import { createClock, createFiles } from "@patchbay/os";
import { createSilentLogger } from "@patchbay/telemetry";
import {
  bridgeNetworkManifest,
  endTrial,
  eventually,
  FEW_PORTS,
  vmManifest,
  type Machine,
} from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Pings } from "../e2e/network/pings.ts";
import { bringUp, ROOT } from "../e2e/standalone.ts";
import { askPod, portsOf } from "./ask-pod.ts";
import { runController } from "./controller.ts";
import { onMachine } from "./overlay.ts";

/** On the test's own link, because pods cannot use the loopback. */
const API_ADDRESS = "10.79.250.1";
const LINK = "pbi-api";
const SERVICES = ["virt-controller", "virt-handler", "net-agent", "virt-api"];
/** The manifests' replicas: more than one if one may be killed while another continues. */
const REPLICAS: Readonly<Record<string, number>> = { "virt-controller": 2, "virt-api": 2 };
const TIMEOUT = { withinMs: 120_000 };
const PODS = "/api/v1/namespaces/patchbay/pods";
const SUBRESOURCES = "/apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachines/alpha";

let machine: Machine;
let client: KubeClient;
/** Cleanups, executed in reverse order. */
const undo: (() => void | Promise<void>)[] = [];

/** Ends a machine's own process without a restart: kills its supervisor first. */
async function end(component: string): Promise<void> {
  const pid = machine.pidOf(component);
  process.kill(pid, "SIGKILL");
  await eventually(() => !existsSync(`/proc/${String(pid)}`), TIMEOUT);
}

function podsOf(service: string): readonly Pod[] {
  const selector = encodeURIComponent(`app.kubernetes.io/name=${service}`);
  return (machine.read(`${PODS}?labelSelector=${selector}`) as { items: Pod[] }).items;
}

function isReady({ metadata, status }: Pod): boolean {
  const ready = status?.conditions?.find(({ type }) => type === "Ready");
  return metadata.deletionTimestamp === undefined && ready?.status === "True";
}

async function expectReadyPods(): Promise<void> {
  for (const service of SERVICES) {
    const replicas = REPLICAS[service] ?? 1;
    await eventually(() => podsOf(service).filter(isReady).length === replicas, TIMEOUT);
  }
}

/** The pod that holds its service's lease, even if deleted; undefined without a lease. */
function leaderOf(service: string): string | undefined {
  const path = "/apis/coordination.k8s.io/v1/namespaces/patchbay/leases";
  const { items } = machine.read(path) as { items: Lease[] };
  const holder = items.find(({ metadata }) => metadata.name === service)?.spec?.holderIdentity;
  return holder?.replace(/_.*/, "");
}

function removePod(name: string): void {
  machine.kubectl("delete", "pod", "-n", "patchbay", name, "--grace-period=0", "--force");
}

/** Replaces a service's pod: the leader if there is leader election, as soon as one leads. */
async function kill(service: string): Promise<void> {
  const name = await eventually(() => {
    const names = podsOf(service)
      .filter(isReady)
      .map(({ metadata }) => metadata.name);
    const leader = leaderOf(service);
    return leader === undefined ? names[0] : names.find((one) => one === leader);
  }, TIMEOUT);
  removePod(name);
}

function ifaceOf(name: string): IfaceStatus | undefined {
  return machine.findVmi("alpha")?.status?.interfaces?.find((iface) => iface.name === name);
}

/** Retries until a server answers: there is none between two virt-apis. */
async function ask(subresource: string, body: unknown): Promise<void> {
  await eventually(() => machine.put(`${SUBRESOURCES}/${subresource}`, body).code === 0, TIMEOUT);
}

function plug(name: string): Promise<void> {
  return ask("addinterface", { name, networkAttachmentDefinitionName: "blue" });
}

function unplug(name: string): Promise<void> {
  return ask("removeinterface", { name });
}

async function expectPlugged(name: string): Promise<void> {
  await eventually(() => ifaceOf(name)?.hotplug?.phase === "Ready", TIMEOUT);
}

async function expectGone(name: string): Promise<void> {
  await eventually(() => {
    const { spec, status } = machine.findVmi("alpha") ?? {};
    const all = [
      ...(spec?.networks ?? []),
      ...(status?.interfaces ?? []),
      ...(status?.attachments ?? []),
    ];
    return !all.some((entry) => entry.name === name);
  }, TIMEOUT);
}

function removeLink(): void {
  if (existsSync(`/sys/class/net/${LINK}`)) execFileSync("ip", ["link", "del", LINK]);
}

beforeAll(async () => {
  execFileSync(join(ROOT, "hack/images/make-images"), ["patchbay"], { stdio: "inherit" });
  removeLink(); // of a killed run
  execFileSync("ip", ["link", "add", LINK, "type", "bridge"]);
  undo.push(removeLink);
  execFileSync("ip", ["address", "add", `${API_ADDRESS}/32`, "dev", LINK]);
  execFileSync("ip", ["link", "set", LINK, "up"]);
  const wanted = { apiPort: 16643, bridge: "pbi0", apiAddress: API_ADDRESS, sharesMounts: true };
  machine = await bringUp(wanted, (made) => {
    const archive = join(ROOT, ".cache/images/patchbay.tar");
    made.patchbay("image", "add", "localhost/patchbay/patchbay:dev", archive);
    return Promise.resolve();
  });
  undo.push(() => {
    endTrial(machine);
  });
  const kubeconfig = join(machine.dataDir, "kubeconfig");
  const [clock, log] = [createClock(), createSilentLogger()];
  client = createKubeClient(await loadKubeConfig({ kubeconfig }), { logger: log, clock });
  undo.push(() => client.close());
  const state = readFileSync(join(machine.dataDir, "run/supervisor.json"), "utf8");
  process.kill((JSON.parse(state) as { pid: number }).pid, "SIGKILL");
  for (const service of SERVICES) await end(service);
  // The machine's registration of its own virt-api.
  const versions = ["v1", "v1alpha3"].map((version) => `${version}.subresources.kubevirt.io`);
  machine.kubectl("delete", "apiservice", ...versions);
  machine.kubectl(
    "delete",
    "mutatingwebhookconfiguration,validatingwebhookconfiguration",
    "patchbay",
  );
  machine.kubectl(
    "delete",
    "service,endpoints",
    "virt-api",
    "-n",
    "patchbay",
    "--ignore-not-found",
  );
  const [socket = ""] = execFileSync("find", [machine.dataDir, "-name", "containerd.sock"], {
    encoding: "utf8",
  }).split("\n");
  const place = { dataDir: machine.dataDir, socket, hostPid: machine.pidOf("containerd") };
  const manifests = parseManifests(await readManifests(createFiles(), "base"));
  const objects = onMachine(manifests, place);
  await install(client.store, { objects, dryRun: false, report: () => undefined });
  const settings = readFileSync(join(machine.dataDir, "standalone.json"), "utf8");
  const { nodeName } = JSON.parse(settings) as { nodeName: string };
  const stop = new AbortController();
  const controller = runController({ client, clock, log, nodeName }, stop.signal);
  undo.push(async () => {
    stop.abort(new Error("the stories are told"));
    await controller;
    // The machine's own net-agent, which ends with it, would wait for this one's end.
    for (const { metadata } of podsOf("net-agent")) removePod(metadata.name);
  });
}, 300_000);

afterAll(async () => {
  for (const step of undo.reverse()) await step();
}, 300_000);

test("the four services run as pods, and the machine's own do not run", async () => {
  await expectReadyPods();
  for (const service of SERVICES) {
    expect(existsSync(`/proc/${String(machine.pidOf(service))}`)).toBe(false);
  }
  const available = (): boolean =>
    machine.kubectl("get", "apiservice", "v1.subresources.kubevirt.io").includes("True");
  await eventually(available, TIMEOUT);
});

/** Status of a request for a pod's metrics. */
async function metricsOf(pod: Pod, token?: string): Promise<number> {
  const door = { port: "metrics", path: "/metrics" };
  return (await askPod(pod, { ...door, ...(token !== undefined && { token }) })).code;
}

test("the metrics of every service are readable with the role for them only", async () => {
  const token = async (): Promise<string> => {
    const path = "/api/v1/namespaces/patchbay/serviceaccounts/virt-handler/token";
    const { text } = await client.requestRaw({ method: "POST", path, body: { spec: {} } });
    return (JSON.parse(text) as { readonly status: { readonly token: string } }).status.token;
  };
  const refused = await token();
  const pods = SERVICES.flatMap((service) => podsOf(service));
  for (const pod of pods) {
    expect([await metricsOf(pod), await metricsOf(pod, "a.b.c")]).toEqual([401, 401]);
    expect(await metricsOf(pod, refused)).toBe(403);
  }
  machine.kubectl(
    "create",
    "clusterrolebinding",
    "pbi-reader",
    "--clusterrole=patchbay:metrics-reader",
    "--serviceaccount=patchbay:virt-handler",
  );
  // The first rejection is cached for a minute.
  const granted = await token();
  for (const pod of pods) expect(await metricsOf(pod, granted)).toBe(200);
});

test.each([
  { service: "virt-api", port: "https" },
  { service: "virt-controller", port: "metrics" },
  { service: "virt-handler", port: "metrics" },
])("$service reports its configuration, as KubeVirt's suite expects", async (row) => {
  const list = machine.read("/apis/kubevirt.io/v1/kubevirts") as { items: KubeVirt[] };
  const wanted = Number(list.items[0]?.metadata.resourceVersion);
  const selector = encodeURIComponent(`kubevirt.io=${row.service}`);
  const pods = machine.read(`${PODS}?labelSelector=${selector}`) as { items: Pod[] };
  expect(pods.items.length).toBeGreaterThan(0);
  for (const pod of pods.items) {
    expect(portsOf(pod)).toContainEqual(
      expect.objectContaining({ name: row.port, containerPort: 8443 }),
    );
    const knows = async (): Promise<boolean> => {
      const { text } = await askPod(pod, { port: row.port, path: "//healthz" });
      const body = JSON.parse(text) as { readonly "config-resource-version": string };
      return Number(body["config-resource-version"]) >= wanted;
    };
    await eventually(knows, TIMEOUT);
  }
});

test("a VM starts", async () => {
  machine.apply(
    bridgeNetworkManifest("blue", "pbi-blue", "10.79.1.0/24"),
    vmManifest({ name: "alpha", pcieRootPorts: FEW_PORTS }),
  );
  await machine.booted("alpha");
  expect(machine.findVmi("alpha")?.status?.phase).toBe("Running");
});

test("its guest is paused and resumed by its node's virt-handler", async () => {
  const path = SUBRESOURCES.replace("virtualmachines", "virtualmachineinstances");
  const isPaused = (): boolean =>
    (machine.findVmi("alpha")?.status?.conditions ?? []).some(({ type }) => type === "Paused");
  // A Secret's files are updated in pods some time after the write.
  await eventually(() => machine.put(`${path}/pause`, {}).code === 0, { withinMs: 120_000 });
  await eventually(isPaused, TIMEOUT);
  expect(machine.put(`${path}/unpause`, {})).toMatchObject({ code: 0 });
  await eventually(() => !isPaused(), TIMEOUT);
});

test.each(SERVICES)(
  "a NIC is plugged and unplugged, and %s is killed during both",
  async (service) => {
    const guest = machine.console("alpha");
    const since = guest.position();
    await plug("one");
    await kill(service);
    const line = await guest.waitForLine(/nic added \S+ mac/, {
      timeoutMs: TIMEOUT.withinMs,
      since,
    });
    await expectPlugged("one");
    expect(line).toContain(`mac ${ifaceOf("one")?.mac ?? "none"}`);
    await expectReadyPods();
    await unplug("one");
    await kill(service);
    await guest.waitForLine(/nic removed/, { timeoutMs: TIMEOUT.withinMs, since });
    await expectGone("one");
    await expectReadyPods();
  },
);

test("an archive for a bug report has the node's journal, rules and links", async () => {
  await plug("noted");
  await expectPlugged("noted");
  const file = join(machine.dataDir, "bundle.tar.gz");
  machine.patchbay("doctor", "--bundle", file);
  const node = podsOf("net-agent")[0]?.spec.nodeName ?? "none";
  const read = (name: string): string =>
    execFileSync("tar", ["-xzOf", file, `patchbay-bundle/nodes/${node}/${name}`], {
      encoding: "utf8",
    });
  expect(Object.keys(JSON.parse(read("journal.json")) as object)).toHaveLength(1);
  expect(read("rules.txt")).toContain("table ");
  expect(read("links.txt")).toContain("pbi-blue");
  await unplug("noted");
  await expectGone("noted");
});

/** An address on the network's bridge, which the guest pings, and the guest's. */
const [HOST, GUEST] = ["10.79.9.254", "10.79.9.1"];

/** Sends dry runs of a creation, which the webhooks review, and requests to virt-api, until aborted. Returns the failures. */
async function askUntil(signal: AbortSignal): Promise<{ count: number; failures: string[] }> {
  // The cast is safe, because the manifest is a VM's.
  const vm = vmManifest({ name: "reviewed", pcieRootPorts: FEW_PORTS }) as VirtualMachine;
  const failures: string[] = [];
  let count = 0;
  while (!signal.aborted) {
    count += 1;
    const calls = [
      client.store.create(VIRTUAL_MACHINES, vm, { dryRun: true }),
      client.requestRaw({ method: "GET", path: "/apis/subresources.kubevirt.io/v1/version" }),
    ];
    for (const outcome of await Promise.allSettled(calls)) {
      if (outcome.status === "rejected") failures.push(String(outcome.reason));
    }
  }
  return { count, failures };
}

/** Changes the pods of every workload, as an installation of another version does. */
function updateServices(version: string): void {
  const annotations = { "patchbay.test/version": version };
  const change = JSON.stringify({ spec: { template: { metadata: { annotations } } } });
  for (const service of SERVICES) {
    const kind = REPLICAS[service] === undefined ? "daemonset" : "deployment";
    machine.kubectl("patch", kind, service, "-n", "patchbay", "--type=merge", "-p", change);
  }
}

function updatedPods(service: string, version: string): readonly Pod[] {
  return podsOf(service).filter(
    (pod) => isReady(pod) && pod.metadata.annotations?.["patchbay.test/version"] === version,
  );
}

test("an update of all services loses no request, and no packet of the guest", async () => {
  await plug("rolled");
  await expectPlugged("rolled");
  // The network's first NIC creates the bridge.
  execFileSync("ip", ["address", "add", `${HOST}/24`, "dev", "pbi-blue"]);
  const guest = machine.console("alpha");
  const mac = ifaceOf("rolled")?.mac ?? "none";
  const { lines } = await guest.run("report");
  const nic = lines
    .map((line) => /^nic (\S+) mac (\S+)/.exec(line))
    .find((each) => each?.[2] === mac);
  await guest.run(`address ${nic?.[1] ?? "none"} ${GUEST}/24`);
  const pings = await Pings.start(guest, HOST);
  const stop = new AbortController();
  const asking = askUntil(stop.signal);
  updateServices("2");
  for (const service of SERVICES) {
    const replicas = REPLICAS[service] ?? 1;
    await eventually(() => updatedPods(service, "2").length === replicas, TIMEOUT);
    await eventually(() => podsOf(service).length === replicas, TIMEOUT);
  }
  stop.abort(new Error("every service is updated"));
  const { count, failures } = await asking;
  const sent = await pings.stop(); // passes only if each ping was answered
  process.stdout.write(`update: ${String(count)} requests, ${String(sent)} pings, none lost\n`);
  expect(failures).toEqual([]);
  expect(count).toBeGreaterThan(20);
  expect(sent).toBeGreaterThan(100);
  await unplug("rolled");
  await expectGone("rolled");
});

test("the NICs leave no traces, and the guest runs undisturbed", () => {
  const journal = join(machine.dataDir, "net-agent/journal");
  expect(existsSync(journal) ? readdirSync(journal) : []).toEqual([]);
  expect(
    machine
      .console("alpha")
      .lines()
      .filter((line) => line.includes("guest ready")),
  ).toHaveLength(1);
});
