// SPDX-License-Identifier: Apache-2.0
// Two in-memory nodes with one VMI, whose guest runs on the first and may migrate to the second. Tests write virt-controller's fields.
import {
  VIRTUAL_MACHINE_INSTANCES,
  type KubeVirt,
  type MigrationState,
  type VirtualMachineInstance,
  type VmiStatus,
} from "@patchbay/api";
import { domainNameOf } from "@patchbay/core/vm";
import { launcherPodName } from "@patchbay/core/migration";
import { createFakeHookSidecars } from "@patchbay/hooks/testing";
import { createFakeCache, createFakeStore } from "@patchbay/kube/testing";
import { createFakeHypervisor, type FakeDaemon } from "@patchbay/libvirt/testing";
import {
  createFakeClock,
  createFakeFiles,
  createFakeLaunchers,
  createFakeLauncherDisks,
  createFakeVhostSockets,
} from "@patchbay/os/testing";
import {
  createFakeAddressServers,
  createFakeLinkCounters,
  createFakeFrameWatch,
  createFakeLinkWatch,
  createFakePodNetwork,
  type FakePodNetwork,
} from "@patchbay/podnet/testing";
import { eventually } from "@patchbay/support";
import { createMetrics } from "@patchbay/telemetry";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { createAddressStore } from "../addresses/address-store.ts";
import { runLoop } from "../loop.ts";
import { NETNS } from "./bench.ts";
import { createFakeRelays } from "./fake-relays.ts";
import { openingTaps } from "./opening-taps.ts";
import { aScheduledVmi, attachment, putNicAt } from "./scene.ts";

const KEY = { namespace: "default", name: "vm1" };
const MIGRATION = "move-1";
const FDS = { node1: 7, node2: 9 } as const;
export const PODS = { node1: "pod-uid", node2: "pod-2" } as const;
const PEER = "qemu+unix:///session?socket=/run/launcher/migration-peer.sock";
const SOON = { withinMs: 10_000 };

export type NodeName = keyof typeof FDS;

interface RunningNode {
  readonly vmis: ReturnType<typeof createFakeCache<VirtualMachineInstance>>;
  readonly stop: AbortController;
  readonly loop: Promise<void>;
}

export class TwoNodes {
  readonly store = createFakeStore();
  readonly clock = createFakeClock();
  metrics = createMetrics("virt-handler");
  readonly relays = createFakeRelays();
  /** Configuration of the cluster, empty at first. */
  readonly kubevirts = createFakeCache<KubeVirt>();
  readonly hooks = createFakeHookSidecars();
  readonly launcherDisks = createFakeLauncherDisks();
  readonly #hypervisor = createFakeHypervisor();
  readonly #launchers = createFakeLaunchers();
  readonly #networks = { node1: createFakePodNetwork(), node2: createFakePodNetwork() };
  readonly frameWatches = { node1: createFakeFrameWatch(), node2: createFakeFrameWatch() };
  readonly #files = { node1: createFakeFiles(), node2: createFakeFiles() };
  readonly #running = new Map<NodeName, RunningNode>();
  readonly #vmi = aScheduledVmi(["one"], { nodeName: "node1" });

  /** @param sidecars - hook containers of both launchers */
  constructor(sidecars: readonly string[] = []) {
    this.store.put(VIRTUAL_MACHINE_INSTANCES, this.#vmi);
    const names = {
      node1: launcherPodName(this.#vmi),
      node2: launcherPodName(this.#vmi, MIGRATION),
    };
    for (const node of ["node1", "node2"] as const) {
      const pod = { uid: PODS[node], namespace: "default", name: names[node] };
      const netns = { fd: 8, inode: NETNS };
      this.#launchers.start(pod, { socketFd: FDS[node], netns, sidecars });
      this.daemon(node);
      putNicAt(this.#networks[node], "one");
    }
    this.#hypervisor.leadTo(PEER, { kind: "socket", fd: FDS.node2 });
    const write = this.store.patch.bind(this.store);
    this.store.patch = async (type, key, ...rest) => {
      const written = await write(type, key, ...rest);
      await this.#deliver();
      return written;
    };
  }

  daemon(node: NodeName): FakeDaemon {
    return this.#hypervisor.daemonAt({ kind: "socket", fd: FDS[node] });
  }

  network(node: NodeName): FakePodNetwork {
    return this.#networks[node];
  }

  /** Returns the state of the domain on the node; undefined if the domain does not exist. */
  async stateOn(node: NodeName): Promise<string | undefined> {
    const connection = await this.#hypervisor.open({ kind: "socket", fd: FDS[node] });
    const found = await connection.findDomain(domainNameOf(this.#vmi));
    await connection.close();
    return found?.state;
  }

  async vmi(): Promise<VirtualMachineInstance> {
    const found = await this.store.find(VIRTUAL_MACHINE_INSTANCES, KEY);
    if (found === undefined) throw new Error("the VMI is gone");
    return found;
  }

  async migrationState(): Promise<MigrationState> {
    return (await this.vmi()).status?.migrationState ?? {};
  }

  async #deliver(): Promise<void> {
    const vmi = await this.vmi();
    for (const { vmis } of this.#running.values()) vmis.put(vmi);
  }

  async edit(change: (vmi: VirtualMachineInstance) => VirtualMachineInstance): Promise<void> {
    this.store.put(VIRTUAL_MACHINE_INSTANCES, change(await this.vmi()));
    await this.#deliver();
  }

  async writeStatus(status: VmiStatus): Promise<void> {
    const vmi = await this.vmi();
    this.store.put(VIRTUAL_MACHINE_INSTANCES, { ...vmi, status: { ...vmi.status, ...status } });
    await this.#deliver();
  }

  async writeMigration(state: MigrationState): Promise<void> {
    await this.writeStatus({ migrationState: { ...(await this.migrationState()), ...state } });
  }

  async open(settings: Pick<MigrationState, "migrationConfiguration"> = {}): Promise<void> {
    await this.writeStatus({
      activePods: { [PODS.node1]: "node1", [PODS.node2]: "node2" },
      migrationState: {
        migrationUid: MIGRATION,
        sourceNode: "node1",
        targetNode: "node2",
        sourcePod: launcherPodName(this.#vmi),
        targetAttachments: [attachment("one")],
        ...settings,
      },
    });
  }

  /** Completes the migration, so that the second node owns the guest. */
  async complete(): Promise<void> {
    const { targetAttachments: attachments, ...state } = await this.migrationState();
    await this.writeStatus({
      nodeName: "node2",
      activePods: { [PODS.node2]: "node2" },
      migrationState: { ...state, completed: true },
      ...(attachments !== undefined && { attachments }),
    });
  }

  async start(node: NodeName): Promise<void> {
    const vmis = createFakeCache<VirtualMachineInstance>();
    vmis.put(await this.vmi());
    const stop = new AbortController();
    const podNetwork = this.#networks[node];
    const metrics = createMetrics("virt-handler");
    if (node === "node1") this.metrics = metrics;
    const { store, clock, relays } = this;
    const parts = {
      nodeName: node,
      concurrency: 2,
      store,
      clock,
      relays,
      vmis,
      podNetwork,
      launchers: this.#launchers,
      hypervisor: this.#openingHypervisor(node),
      kubevirts: this.kubevirts,
      frameWatch: this.frameWatches[node],
      linkWatch: createFakeLinkWatch(podNetwork),
      linkCounters: createFakeLinkCounters(),
      vhostSockets: createFakeVhostSockets(),
      addressServers: createFakeAddressServers(),
      hooks: this.hooks,
      launcherDisks: this.launcherDisks,
      addressStore: createAddressStore(this.#files[node], "/addresses"),
      events: { record: () => undefined, flush: () => Promise.resolve() },
      log: createFakeLogger(),
      metrics,
    };
    this.#running.set(node, { vmis, stop, loop: runLoop(parts, stop.signal) });
  }

  /** Stops the node's virt-handler and its relays. */
  async stop(node: NodeName): Promise<void> {
    const running = this.#running.get(node);
    this.#running.delete(node);
    running?.stop.abort();
    await running?.loop;
  }

  async stopAll(): Promise<void> {
    for (const node of [...this.#running.keys()]) await this.stop(node);
  }

  /** Waits until the condition holds, while the fake clock advances. */
  async until(isSo: () => Promise<boolean>): Promise<void> {
    await eventually(async () => {
      await this.clock.advance(500);
      return isSo();
    }, SOON);
  }

  #openingHypervisor(node: NodeName) {
    const qemu = {
      daemon: this.daemon(node),
      openTap: (name: string): void => {
        this.#networks[node].openTap(NETNS, name);
      },
      rewriteXml: (xml: string): string => xml,
    };
    const hypervisor = this.#hypervisor;
    return {
      open: async (...args: Parameters<typeof hypervisor.open>) =>
        openingTaps(await hypervisor.open(...args), qemu),
      close: () => hypervisor.close(),
    };
  }
}
