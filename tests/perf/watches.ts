// SPDX-License-Identifier: Apache-2.0
// virt-handler's idle cost of watching many pods' links, and its repair time. Namespaces, netlink and iproute2 are
// real; libvirt and the API server are in memory, because both are silent at rest.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { closeSync, fstatSync, openSync, readdirSync } from "node:fs";
import { setTimeout as pass } from "node:timers/promises";
import {
  VIRTUAL_MACHINE_INSTANCES,
  type KubeVirt,
  type VirtualMachineInstance,
} from "@patchbay/api";
import {
  createClock,
  createFrameWatch,
  createLinkWatch,
  createNetlink,
  createProcessRunner,
  limitProcesses,
} from "@patchbay/os";
import { createPodNetwork } from "@patchbay/podnet";
import type { Launcher, NetnsHandle, PodNetwork } from "@patchbay/core/interfaces";
import { createFakeCache, createFakeStore } from "@patchbay/kube/testing";
import { createFakeHookSidecars } from "@patchbay/hooks/testing";
import { createFakeHypervisor } from "@patchbay/libvirt/testing";
import {
  createFakeFiles,
  createFakeLauncherDisks,
  createFakeVhostSockets,
} from "@patchbay/os/testing";
import { createFakeAddressServers, createFakeLinkCounters } from "@patchbay/podnet/testing";
import { createMetrics } from "@patchbay/telemetry";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { aVmi, eventually } from "@patchbay/support";
import {
  createAddressStore,
  createFakeRelays,
  runLoop,
  DEFAULT_CONCURRENCY,
} from "@patchbay/virt-handler/testing";

const NODE = "node1";
const PODS = 50;
const REST_MS = 30_000;
/** Before the idle phase, because the kernel reports carriers up to a second later. */
const SETTLE_MS = 3_000;
const WAIT = { withinMs: 120_000 };
const PREFIX = `pbw${String(process.pid)}`;
const IFACE = "one";

function sha256Hex(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

const HASH = sha256Hex(IFACE).slice(0, 11);
const POD_NIC = `pod${HASH}`;
const BRIDGE = `k6t-${HASH}`;

function run(...args: readonly string[]): string {
  return execFileSync("ip", args, { encoding: "utf8", stdio: "pipe" });
}

interface Pod {
  readonly name: string;
  readonly uid: string;
  readonly netns: NetnsHandle;
  readonly vmi: VirtualMachineInstance;
}

function makePod(index: number): Pod {
  const name = `${PREFIX}-${String(index)}`;
  const uid = `pod-${String(index)}`;
  const mac = `02:00:00:00:01:${index.toString(16).padStart(2, "0")}`;
  run("netns", "add", name);
  const nic = ["link", "add", POD_NIC, "address", mac, "type", "veth", "peer", "name", "far"];
  run("-n", name, ...nic);
  for (const link of [POD_NIC, "far"]) run("-n", name, "link", "set", link, "up");
  const fd = openSync(`/run/netns/${name}`, "r");
  const attachment = { name: IFACE, podInterfaceName: POD_NIC, state: "Attached", mac } as const;
  const vmi = aVmi({
    nics: [{ name: IFACE, mac }],
    status: { phase: "Scheduled", activePods: { [uid]: NODE }, attachments: [attachment] },
  });
  const metadata = { ...vmi.metadata, name: `vm${String(index)}`, uid: `vmi-${String(index)}` };
  const netns = { fd, inode: fstatSync(fd, { bigint: true }).ino.toString() };
  return { name, uid, netns, vmi: { ...vmi, metadata } };
}

/** Counts observations; every tap is open, as by QEMU. */
function countedNetwork(looked: () => void): PodNetwork {
  const network = createPodNetwork({
    runner: limitProcesses(createProcessRunner(), 8),
    netlink: createNetlink(),
  });
  return {
    ...network,
    observe: async (netns) => {
      looked();
      const view = await network.observe(netns);
      const links = view.links.map((link) =>
        link.kind === "tun" ? { ...link, carrier: true } : link,
      );
      return { ...view, links };
    },
  };
}

function launcherFor(pods: readonly Pod[], uid: string): Launcher {
  const index = pods.findIndex((pod) => pod.uid === uid);
  const netns = pods[index]?.netns ?? { fd: -1, inode: "" };
  const ended = new Promise<void>(() => undefined);
  return { socketFd: 1000 + index, directoryFd: -1, netns, ended, close: () => undefined };
}

/** The loop over these pods; its requests stay in memory across restarts of the loop. */
class Node {
  looks = 0;
  readonly #pods: readonly Pod[];
  readonly #vmis = createFakeCache<VirtualMachineInstance>();
  readonly #store = createFakeStore();
  readonly #hypervisor = createFakeHypervisor();
  #stop = new AbortController();
  #ended: Promise<void> = Promise.resolve();

  constructor(pods: readonly Pod[]) {
    this.#pods = pods;
    const [store, hypervisor] = [this.#store, this.#hypervisor];
    const write = store.patch.bind(store);
    store.patch = async (type, key, ...rest) => {
      const written = await write(type, key, ...rest);
      const vmi = await store.find(VIRTUAL_MACHINE_INSTANCES, key);
      if (vmi !== undefined) this.#vmis.put(vmi);
      return written;
    };
    for (const [index, { vmi }] of pods.entries()) {
      hypervisor.daemonAt({ kind: "socket", fd: 1000 + index });
      store.put(VIRTUAL_MACHINE_INSTANCES, vmi);
      this.#vmis.put(vmi);
    }
  }

  /** Starts like a new process. */
  start(): void {
    const [store, hypervisor, pods] = [this.#store, this.#hypervisor, this.#pods];
    this.#stop = new AbortController();
    const parts = {
      nodeName: NODE,
      store,
      hypervisor,
      vmis: this.#vmis,
      concurrency: DEFAULT_CONCURRENCY,
      kubevirts: createFakeCache<KubeVirt>(),
      launchers: {
        open: ({ uid }: { readonly uid: string }) => Promise.resolve(launcherFor(pods, uid)),
        watch: () => undefined,
      },
      frameWatch: createFrameWatch(),
      linkWatch: createLinkWatch(),
      vhostSockets: createFakeVhostSockets(),
      launcherDisks: createFakeLauncherDisks(),
      linkCounters: createFakeLinkCounters(),
      relays: createFakeRelays(),
      addressServers: createFakeAddressServers(),
      hooks: createFakeHookSidecars(),
      addressStore: createAddressStore(createFakeFiles(), "/addresses"),
      podNetwork: countedNetwork(() => (this.looks += 1)),
      events: { record: () => undefined, flush: () => Promise.resolve() },
      clock: createClock(),
      log: createFakeLogger(),
      metrics: createMetrics("virt-handler"),
    };
    this.#ended = runLoop(parts, this.#stop.signal);
  }

  get isReady(): boolean {
    const vmis = this.#vmis.list();
    return vmis.every(({ status }) => status?.interfaces?.[0]?.hotplug?.phase === "Ready");
  }

  async close(): Promise<void> {
    this.#stop.abort();
    await this.#ended;
  }
}

/** Milliseconds from the loop's start until every pod is repaired. */
async function converge(node: Node, pods: readonly Pod[]): Promise<number> {
  await node.close();
  for (const { name } of pods) run("-n", name, "link", "del", BRIDGE);
  const startMs = performance.now();
  node.start();
  const isMended = ({ name }: Pod): boolean => run("-n", name, "link").includes(`${BRIDGE}:`);
  // Starts with the last pod, because each check runs a program.
  const left = [...pods];
  await eventually(() => {
    while (left.length > 0 && left.slice(-1).every(isMended)) left.pop();
    return left.length === 0;
  }, WAIT);
  return performance.now() - startMs;
}

function countDescriptors(): number {
  return readdirSync("/proc/self/fd").length;
}

/** Milliseconds until a deleted bridge exists again. */
async function mendOne({ name }: Pod): Promise<number> {
  run("-n", name, "link", "del", BRIDGE);
  const startMs = performance.now();
  await eventually(() => run("-n", name, "link").includes(`${BRIDGE}:`), WAIT);
  return performance.now() - startMs;
}

async function measure(pods: readonly Pod[]): Promise<void> {
  const before = countDescriptors();
  const node = new Node(pods);
  node.start();
  try {
    await eventually(() => node.isReady, WAIT);
    await pass(SETTLE_MS);
    const watched = countDescriptors() - before;
    const start = { cpu: process.cpuUsage(), looks: node.looks };
    await pass(REST_MS);
    const { user, system } = process.cpuUsage(start.cpu);
    const looks = node.looks - start.looks;
    const repaired = [];
    for (const pod of pods) repaired.push(await mendOne(pod));
    repaired.sort((left, right) => left - right);
    const [median = NaN, most = NaN] = [repaired[PODS / 2], repaired.at(-1)];
    const restartedMs = await converge(node, pods);
    process.stdout.write(
      [
        `${String(PODS)} watched namespaces`,
        `descriptors of the watches and the process around them: ${String(watched)}`,
        `CPU at rest: ${(((user + system) / 1000 / REST_MS) * 100).toFixed(2)} % of a core; looks in ${String(REST_MS / 1000)} s: ${String(looks)}`,
        `a deleted bridge is there again after: median ${median.toFixed(0)} ms, most ${most.toFixed(0)} ms`,
        `the loop is started again and every pod's bridge, deleted meanwhile, is there after: ${restartedMs.toFixed(0)} ms`,
        "",
      ].join("\n"),
    );
  } finally {
    await node.close();
  }
}

export async function measureWatches(): Promise<void> {
  const pods: Pod[] = [];
  try {
    for (let index = 0; index < PODS; index += 1) pods.push(makePod(index));
    await measure(pods);
  } finally {
    for (const { name, netns } of pods) {
      closeSync(netns.fd);
      run("netns", "del", name);
    }
  }
}
