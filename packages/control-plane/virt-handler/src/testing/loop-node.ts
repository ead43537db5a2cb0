// SPDX-License-Identifier: Apache-2.0
// A node that runs the whole loop with fakes: one launcher that listens, one NIC in its pod, and a fake clock.
import {
  VIRTUAL_MACHINE_INSTANCES,
  type KubeVirt,
  type VirtualMachineInstance,
} from "@patchbay/api";
import type { KubeObject } from "@patchbay/api/kubernetes";
import type { Hypervisor } from "@patchbay/core/interfaces";
import type { Note } from "@patchbay/kube";
import { createFakeCache, createFakeStore } from "@patchbay/kube/testing";
import { createFakeHookSidecars } from "@patchbay/hooks/testing";
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
  createFakeFrameWatch,
  createFakeLinkCounters,
  createFakeLinkWatch,
  createFakePodNetwork,
} from "@patchbay/podnet/testing";
import { createMetrics, type ReconcilePass } from "@patchbay/telemetry";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { createAddressStore } from "../addresses/address-store.ts";
import type { RequestGuest } from "../server/guest-requests.ts";
import { runLoop, type GuestAccess } from "../loop.ts";
import { findLauncher } from "../server/find-guest.ts";
import { NETNS } from "./bench.ts";
import { createFakeRelays } from "./fake-relays.ts";
import { openingTaps } from "./opening-taps.ts";
import { aScheduledVmi, putNicAt } from "./scene.ts";

const KEY = { namespace: "default", name: "vm1" };
const NODE = "node1";
const SOCKET_FD = 7;

export class LoopNode {
  readonly store = createFakeStore();
  readonly vmis = createFakeCache<VirtualMachineInstance>();
  readonly hypervisor = createFakeHypervisor();
  readonly podNetwork = createFakePodNetwork();
  readonly linkWatch = createFakeLinkWatch(this.podNetwork);
  readonly frameWatch = createFakeFrameWatch();
  readonly vhostSockets = createFakeVhostSockets();
  readonly linkCounters = createFakeLinkCounters();
  readonly launchers = createFakeLaunchers();
  readonly addressServers = createFakeAddressServers();
  readonly clock = createFakeClock();
  readonly metrics = createMetrics("virt-handler");
  readonly results: string[] = [];
  /** Recorded events, as `REASON: message`. */
  readonly events: string[] = [];
  /** Functions of {@link GuestAccess}, available while the loop runs. */
  request: RequestGuest = () => Promise.reject(new Error("the loop does not run"));
  createOpenStream: GuestAccess["createOpenStream"] = () => () =>
    Promise.reject(new Error("the loop does not run"));
  createCapture: GuestAccess["createCapture"] = () => () =>
    Promise.reject(new Error("the loop does not run"));
  createExamine: GuestAccess["createExamine"] = () => () =>
    Promise.reject(new Error("the loop does not run"));
  readonly #stop = new AbortController();
  #loop = Promise.resolve();

  constructor() {
    const pod = findLauncher(aScheduledVmi([]), { nodeName: NODE });
    if (pod === undefined) throw new Error("the VMI is on no node");
    this.launchers.start(pod, { socketFd: SOCKET_FD, netns: { fd: 8, inode: NETNS } });
    this.hypervisor.daemonAt({ kind: "socket", fd: SOCKET_FD });
    putNicAt(this.podNetwork, "one");
    const write = this.store.patch.bind(this.store);
    this.store.patch = async (type, key, ...rest) => {
      const written = await write(type, key, ...rest);
      await this.#deliver();
      return written;
    };
  }

  /** The launcher's libvirt. */
  get daemon(): FakeDaemon {
    return this.hypervisor.daemonAt({ kind: "socket", fd: SOCKET_FD });
  }

  get vmi(): VirtualMachineInstance | undefined {
    return this.vmis.find(KEY);
  }

  get isRunning(): boolean {
    return this.vmi?.status?.phase === "Running";
  }

  async #deliver(): Promise<void> {
    const vmi = await this.store.find(VIRTUAL_MACHINE_INSTANCES, KEY);
    if (vmi !== undefined) this.vmis.put(vmi);
  }

  /** Stores the VMI, and delivers it like the watch. */
  async put(vmi: VirtualMachineInstance): Promise<void> {
    this.store.put(VIRTUAL_MACHINE_INSTANCES, vmi);
    await this.#deliver();
  }

  take(): void {
    this.vmis.take(KEY);
  }

  #openingHypervisor(): Hypervisor {
    const qemu = {
      daemon: this.daemon,
      openTap: (name: string): void => {
        this.podNetwork.openTap(NETNS, name);
      },
      rewriteXml: (xml: string): string => xml,
    };
    return {
      open: async (address) => openingTaps(await this.hypervisor.open(address), qemu),
      close: () => this.hypervisor.close(),
    };
  }

  start(): void {
    const { store, vmis, podNetwork, linkWatch, vhostSockets, linkCounters } = this;
    const { launchers, clock } = this;
    const parts = {
      nodeName: NODE,
      concurrency: 2,
      store,
      vmis,
      podNetwork,
      linkWatch,
      frameWatch: this.frameWatch,
      vhostSockets,
      linkCounters,
      launchers,
      clock,
      hypervisor: this.#openingHypervisor(),
      kubevirts: createFakeCache<KubeVirt>(),
      addressServers: this.addressServers,
      hooks: createFakeHookSidecars(),
      launcherDisks: createFakeLauncherDisks(),
      relays: createFakeRelays(),
      addressStore: createAddressStore(createFakeFiles(), "/addresses"),
      events: {
        record: (_object: KubeObject, { reason, message }: Note): void => {
          this.events.push(`${reason}: ${message}`);
        },
        flush: () => Promise.resolve(),
      },
      log: createFakeLogger(),
      onGuestAccess: ({
        request,
        createOpenStream,
        createCapture,
        createExamine,
      }: GuestAccess): void => {
        this.request = request;
        this.createOpenStream = createOpenStream;
        this.createCapture = createCapture;
        this.createExamine = createExamine;
      },
      metrics: {
        ...this.metrics,
        observeReconcile: (pass: ReconcilePass): void => {
          this.metrics.observeReconcile(pass);
          this.results.push(pass.result);
        },
      },
    };
    this.#loop = runLoop(parts, this.#stop.signal);
  }

  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#loop;
  }
}
