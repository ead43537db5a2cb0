// SPDX-License-Identifier: Apache-2.0
// An in-memory node for tests of the loop: one VMI, its launcher, its pod's links, and crashes on demand.
import {
  VIRTUAL_MACHINE_INSTANCES,
  type KubeVirt,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { isAppError } from "@patchbay/base";
import { createMutationCache, createQueue, printKey, type Next, type Note } from "@patchbay/kube";
import type { NicPolicy } from "@patchbay/core/policies";
import type { Hypervisor, HypervisorConnection, PodNetwork } from "@patchbay/core/interfaces";
import {
  createFakeCache,
  createFakeStore,
  type FakeCache,
  type FakeStore,
} from "@patchbay/kube/testing";
import { createFakeHookSidecars, type FakeHookSidecars } from "@patchbay/hooks/testing";
import { createFakeHypervisor, type FakeDaemon } from "@patchbay/libvirt/testing";
import {
  createFakeFiles,
  createFakeLaunchers,
  createFakeLauncherDisks,
  createFakeVhostSockets,
  type FakeLauncherDisks,
  type FakeVhostSockets,
} from "@patchbay/os/testing";
import {
  createFakeAddressServers,
  createFakeFrameWatch,
  createFakeLinkWatch,
  createFakePodNetwork,
  type FakeAddressServers,
  type FakeFrameWatch,
  type FakePodNetwork,
} from "@patchbay/podnet/testing";
import { createFakeLogger, type FakeLogger } from "@patchbay/telemetry/testing";
import { createAddressStore } from "../addresses/address-store.ts";
import { createGuestServers } from "../addresses/guest-servers.ts";
import { createLearnedAddresses } from "../addresses/learned-addresses.ts";
import type { Deps } from "../deps.ts";
import { createGuestHooks } from "../hooks/guest-hooks.ts";
import { createMemory } from "../memory.ts";
import { createMigrationRuns } from "../migration/migration-runs.ts";
import { serializeInputs } from "../rate-limits.ts";
import { reconcileNodeVm } from "../loop.ts";
import { findLauncher } from "../server/find-guest.ts";
import { createSessions } from "../sessions/sessions.ts";
import { createFakeRelays } from "./fake-relays.ts";
import { openingTaps, type Qemu } from "./opening-taps.ts";

const KEY = { namespace: "default", name: "vm1" };
const SOCKET_FD = 7;
/** Inode of the pod's network namespace. */
export const NETNS = "42";
const NODE = "node1";

/** Crash at the effect with number `crashAt`; if `after` is true, the effect still happens. */
interface CrashPlan {
  crashAt: number;
  after: boolean;
  count: number;
  /** Called when the process crashes. The call of the effect never returns. */
  die: () => void;
}

export interface Bench {
  readonly store: FakeStore;
  readonly podNetwork: FakePodNetwork;
  readonly addressServers: FakeAddressServers;
  readonly frameWatch: FakeFrameWatch;
  readonly vhostSockets: FakeVhostSockets;
  readonly launcherDisks: FakeLauncherDisks;
  readonly kubevirts: FakeCache<KubeVirt>;
  readonly daemon: FakeDaemon;
  readonly hooks: FakeHookSidecars;
  /** Policy of the launcher pod. */
  policy: NicPolicy | undefined;
  /** Policies of NICs on secondary networks, by network. */
  networkPolicies: Readonly<Record<string, NicPolicy>>;
  nowMs: number;
  readonly effects: number;
  /** Crashes the process at this effect, counted from 1, before or after it. */
  crashAt(effect: number, after: boolean): void;
  /** Recorded events, as `REASON message`. */
  readonly events: readonly string[];
  readonly notes: readonly Note[];
  readonly log: FakeLogger;
  readonly launcher: {
    /** Starts the launcher with these hook containers. */
    start(...sidecars: readonly string[]): void;
    stop(): void;
    readonly openCount: number;
  };
  /** Whether the watch delivers no writes. */
  isBehind: boolean;
  /** Result of the last pass; undefined if it failed. */
  readonly next: Next | undefined;
  /** Runs the loop as a new process until nothing changes. After a crash, starts another process. */
  run(): Promise<void>;
  /** Continues the last process until nothing changes. Returns the errors of failed passes. */
  resume(): Promise<readonly unknown[]>;
  wake(): Promise<void>;
  /** Changes the domain XML that libvirt returns. */
  rewriteXml: (xml: string) => string;
  vmi(): Promise<VirtualMachineInstance>;
  edit(change: (vmi: VirtualMachineInstance) => VirtualMachineInstance): Promise<void>;
}

const CONNECTION_EFFECTS = [
  "defineDomain",
  "startDomain",
  "attachDevice",
  "detachDevice",
  "updateDevice",
] as const;
const FILE_EFFECTS = ["writeAtomic", "remove"] as const;
const NETWORK_EFFECTS = [
  "wireTap",
  "applyPolicy",
  "makeBridge",
  "removeBridge",
  "unwireTap",
] as const;

function withCrashes<T extends object>(target: T, names: readonly (keyof T)[], plan: CrashPlan): T {
  return new Proxy(target, {
    get(object, name): unknown {
      const value: unknown = Reflect.get(object, name, object);
      if (typeof value !== "function") return value;
      // The proxied objects have only methods, which keep their parameters and results.
      const method = value.bind(object) as (...args: unknown[]) => unknown;
      if (!names.some((effect) => effect === name)) return method;
      return async (...args: unknown[]): Promise<unknown> => {
        plan.count += 1;
        if (plan.count !== plan.crashAt) return method(...args);
        if (plan.after) await method(...args);
        plan.die();
        return new Promise(() => undefined);
      };
    },
  });
}

function withCrashingConnections(
  hypervisor: Hypervisor,
  bench: Pick<Bench, "daemon" | "podNetwork" | "rewriteXml">,
  plan: CrashPlan,
): Hypervisor {
  const qemu: Qemu = {
    daemon: bench.daemon,
    openTap: (name) => {
      bench.podNetwork.openTap(NETNS, name);
    },
    rewriteXml: (xml) => bench.rewriteXml(xml),
  };
  return {
    open: async (address): Promise<HypervisorConnection> =>
      withCrashes(openingTaps(await hypervisor.open(address), qemu), CONNECTION_EFFECTS, plan),
    close: () => hypervisor.close(),
  };
}

class MemoryBench implements Bench {
  readonly store = createFakeStore();
  readonly podNetwork = createFakePodNetwork();
  readonly addressServers = createFakeAddressServers();
  readonly frameWatch = createFakeFrameWatch();
  readonly hooks = createFakeHookSidecars();
  readonly vhostSockets = createFakeVhostSockets();
  readonly launcherDisks = createFakeLauncherDisks();
  readonly kubevirts = createFakeCache<KubeVirt>();
  readonly #files = createFakeFiles();
  readonly daemon: FakeDaemon;
  nowMs = 1_000_000;
  readonly #hypervisor = createFakeHypervisor();
  readonly #plan: CrashPlan = { crashAt: 0, after: false, count: 0, die: () => undefined };
  readonly #clock = {
    now: () => this.nowMs,
    monotonicMs: () => this.nowMs,
    sleep: () => Promise.resolve(),
  };
  /** No timer ends. A backoff ends when `wake` finds that its time has passed. */
  readonly #queue = createQueue({
    clock: { ...this.#clock, sleep: () => new Promise(() => undefined) },
    readInputs: () => serializeInputs(this.#vmis.find(KEY)),
  });
  readonly #vmis = createFakeCache<VirtualMachineInstance>();
  #process: Deps | undefined;
  readonly notes: Note[] = [];
  readonly log = createFakeLogger();
  next: Next | undefined;
  isBehind = false;
  readonly #launchers = createFakeLaunchers();
  readonly launcher: Bench["launcher"];

  constructor(first: VirtualMachineInstance) {
    this.store.put(VIRTUAL_MACHINE_INSTANCES, first);
    this.daemon = this.#hypervisor.daemonAt({ kind: "socket", fd: SOCKET_FD });
    const pod = findLauncher(first, { nodeName: NODE });
    const launchers = this.#launchers;
    this.launcher = {
      start: (...sidecars) => {
        if (pod === undefined) return;
        const netns = { fd: 8, inode: NETNS };
        launchers.start(pod, { socketFd: SOCKET_FD, netns, sidecars });
      },
      stop: () => {
        launchers.take(pod?.uid ?? "");
      },
      get openCount(): number {
        return launchers.openCount;
      },
    };
    this.launcher.start();
  }

  get events(): readonly string[] {
    return this.notes.map(({ reason, message }) => `${reason} ${message}`);
  }

  get effects(): number {
    return this.#plan.count;
  }

  crashAt(effect: number, after: boolean): void {
    Object.assign(this.#plan, { crashAt: effect, after, count: 0 });
  }

  async run(): Promise<void> {
    if (await this.#runProcess(this.#newProcess())) return;
    this.#plan.crashAt = 0;
    await this.#runProcess(this.#newProcess());
  }

  async resume(): Promise<readonly unknown[]> {
    const errors: unknown[] = [];
    this.#process ??= this.#newProcess();
    for (let passes = 0; passes < 20; passes += 1) {
      if (!(await this.#pass(this.#process, errors))) return errors;
    }
    throw new Error("the loop is not silent");
  }

  policy: NicPolicy | undefined;
  networkPolicies: Readonly<Record<string, NicPolicy>> = {};

  rewriteXml = (xml: string): string => xml;

  async wake(): Promise<void> {
    this.#process ??= this.#newProcess();
    await this.#deliver();
    const key = printKey(KEY);
    this.#queue.add(key);
    if (this.#queue.length === 0) return;
    await this.#queue.take(AbortSignal.timeout(1_000));
    const errors: unknown[] = [];
    await this.#pass(this.#process, errors);
    const [error] = errors;
    if (error === undefined) this.#queue.forget(key);
    else this.#queue.retry(key, { code: isAppError(error) ? error.code : "UNKNOWN" });
    this.#queue.done(key);
  }

  async vmi(): Promise<VirtualMachineInstance> {
    const found = await this.store.find(VIRTUAL_MACHINE_INSTANCES, KEY);
    if (found === undefined) throw new Error("the VMI is gone");
    return found;
  }

  async edit(change: (vmi: VirtualMachineInstance) => VirtualMachineInstance): Promise<void> {
    this.store.put(VIRTUAL_MACHINE_INSTANCES, change(await this.vmi()));
  }

  #newProcess(): Deps {
    const { store, log } = this;
    const hypervisor = withCrashingConnections(this.#hypervisor, this, this.#plan);
    return {
      nodeName: NODE,
      store,
      vmis: this.#vmis,
      kubevirts: this.kubevirts,
      hypervisor,
      relays: createFakeRelays(),
      migrationRuns: createMigrationRuns(),
      knownLaunchers: new Map(),
      sessions: createSessions({
        launchers: this.#launchers,
        hypervisor,
        linkWatch: createFakeLinkWatch(),
        vhostSockets: this.vhostSockets,
        log,
      }),
      vhostSockets: this.vhostSockets,
      launcherDisks: this.launcherDisks,
      podNetwork: withCrashes<PodNetwork>(this.podNetwork, NETWORK_EFFECTS, this.#plan),
      policies: {
        find: () => ({
          oversized: [],
          ...(this.policy && { policy: this.policy }),
          networks: { policies: this.networkPolicies, oversized: [], unmatched: [] },
        }),
        onChange: () => undefined,
      },
      addressStore: createAddressStore(
        withCrashes(this.#files, FILE_EFFECTS, this.#plan),
        "/state",
      ),
      guestServers: createGuestServers({
        addressServers: withCrashes(this.addressServers, ["start"], this.#plan),
        clock: this.#clock,
        log,
      }),
      learnedAddresses: createLearnedAddresses({
        frameWatch: this.frameWatch,
        clock: this.#clock,
        log,
      }),
      guestHooks: createGuestHooks({ hooks: this.hooks, clock: this.#clock, log }),
      ...createMemory(this.#clock),
      mutationCache: createMutationCache(),
      events: {
        record: (_object, note) => {
          this.notes.push(note);
        },
        flush: () => Promise.resolve(),
      },
      clock: this.#clock,
      log,
    };
  }

  /** Delivers the store's content, like the watch. */
  async #deliver(): Promise<VirtualMachineInstance | undefined> {
    const found = await this.store.find(VIRTUAL_MACHINE_INSTANCES, KEY);
    if (this.isBehind) return found;
    if (found === undefined) this.#vmis.take(KEY);
    else this.#vmis.put(found);
    return found;
  }

  /** Runs one pass. Returns whether it changed anything. Without `errors` it throws errors other than conflicts. */
  async #pass(deps: Deps, errors?: unknown[]): Promise<boolean> {
    const before = JSON.stringify(await this.#deliver()) + String(this.effects);
    const died = new Promise<undefined>((resolve) => {
      this.#plan.die = (): void => {
        resolve(undefined);
      };
    });
    this.next = undefined;
    try {
      this.next = await Promise.race([reconcileNodeVm("default/vm1", deps, () => undefined), died]);
    } catch (error) {
      if (errors === undefined && !isAppError(error, "KUBE_CONFLICT")) throw error;
      errors?.push(error);
    }
    const after = await this.store.find(VIRTUAL_MACHINE_INSTANCES, KEY);
    const { next } = this;
    const isDue = next?.kind === "after" && next.ms === 0;
    return isDue || before !== JSON.stringify(after) + String(this.effects);
  }

  /** Runs one process until nothing changes. Returns false if it crashed. */
  async #runProcess(deps: Deps): Promise<boolean> {
    this.#process = deps;
    for (let passes = 0; passes < 20; passes += 1) {
      if (!(await this.#pass(deps))) return true;
      if (this.#plan.crashAt > 0 && this.effects >= this.#plan.crashAt) return false;
    }
    throw new Error("the loop is not silent");
  }
}

export function createBench(first: VirtualMachineInstance): Bench {
  return new MemoryBench(first);
}
