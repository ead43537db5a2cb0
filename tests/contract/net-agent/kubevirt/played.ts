// SPDX-License-Identifier: Apache-2.0
// Simulated KubeVirt beside net-agent: virt-controller's and virt-handler's actions on one VM, each step on request.
import { names, PODS, VIRTUAL_MACHINE_INSTANCES } from "@patchbay/api";
import { parseNetworkStatus } from "@patchbay/api/annotations";
import type { Pod } from "@patchbay/api/kubernetes";
import type { Sandbox } from "@patchbay/core/interfaces";
import { eventually } from "@patchbay/support";
import type { AgentMachine } from "../machine.ts";
import {
  annotationOfLive,
  annotationOfNew,
  annotationOfTarget,
  type SeenPod,
  type Version,
} from "./annotation.ts";
import {
  cleared,
  isAbsent,
  isInDomain,
  isInPod,
  isOrdinal,
  reportedStatus,
  schemeOf,
  toPlug,
  toUnplug,
  withDomain,
  type Bindings,
  type PlayedIface,
  type PlayedNetwork,
  type PlayedStatus,
  type PlayedVmi,
} from "./vmi.ts";
import { unwire, wire } from "./wiring.ts";

export const NAMESPACE = "default";
/** KubeVirt then stops waiting for the agent and migrates. Source: v1.9 migration/evaluator.go. */
export const WITHIN = { withinMs: 15_000 };
/** The cluster network's entry in the status, as Multus writes it. */
export const POD_NETWORK = {
  name: "kindnet",
  interface: "eth0",
  ips: ["10.244.0.7"],
  mac: "0a:58:0a:f4:00:07",
  default: true,
  dns: {},
};

/** The container and label by which net-agent recognizes a launcher of KubeVirt. Source: v1.9 services/template.go. */
const LAUNCHER_CONTAINERS = [
  {
    name: names.LAUNCHER_CONTAINER,
    image: "virt-launcher:v1.9",
    command: ["/usr/bin/virt-launcher-monitor", "--qemu-timeout", "240s"],
  },
];
const LAUNCHER_LABELS = { [names.KUBEVIRT_LABEL]: names.LAUNCHER_LABEL_VALUE };

export interface Launcher {
  readonly name: string;
  readonly uid: string;
  readonly sandbox: Sandbox;
}

interface VmSketch {
  readonly name: string;
  readonly version: Version;
  readonly interfaces: readonly PlayedIface[];
  readonly networks: readonly PlayedNetwork[];
  readonly bindings?: Bindings;
}

/** A NIC of a VM: its iface and its network. */
export interface Nic {
  readonly name: string;
  readonly nad: string;
  readonly mac?: string;
}

/** The VM's spec of these NICs, beside the pod network. */
export function specOf(...nics: readonly Nic[]): Pick<PlayedVmi, "interfaces" | "networks"> {
  return {
    interfaces: [
      { name: "default", masquerade: {} },
      ...nics.map(({ name, mac }) => ({
        name,
        bridge: {},
        ...(mac === undefined ? {} : { macAddress: mac }),
      })),
    ],
    networks: [
      { name: "default", pod: {} },
      ...nics.map(({ name, nad }) => ({ name, multus: { networkName: nad } })),
    ],
  };
}

/** One VM, its VMI and its launchers. */
export class PlayedVm {
  readonly #machine: AgentMachine;
  readonly #version: Version;
  readonly #name: string;
  #owner: object = {};
  #vmi: PlayedVmi;
  #launchers = 0;
  readonly #running = new Set<Launcher>();
  /** The launcher that runs the guest. */
  #active: Launcher | undefined;
  #critical: Error | undefined;
  /** Whether the guest releases a device immediately, or only after its NIC was removed from the pod. */
  isGuestSlow = false;
  /** Whether virt-handler is active. */
  isHandled = true;
  /** What the runtime does in a new launcher's sandbox, before net-agent sees the pod. */
  prepare: (sandbox: Sandbox) => void = () => undefined;

  private constructor(machine: AgentMachine, { name, version, bindings = {}, ...spec }: VmSketch) {
    this.#machine = machine;
    this.#version = version;
    this.#name = name;
    this.#vmi = { namespace: NAMESPACE, ...spec, status: [], bindings };
  }

  /** The VM's VMI; no pod yet. */
  static async create(machine: AgentMachine, sketch: VmSketch): Promise<PlayedVm> {
    const vm = new PlayedVm(machine, sketch);
    const { kind } = VIRTUAL_MACHINE_INSTANCES;
    const { name } = sketch;
    const vmi = await machine.admin.store.create(VIRTUAL_MACHINE_INSTANCES, {
      apiVersion: "kubevirt.io/v1",
      kind,
      metadata: { namespace: NAMESPACE, name },
      spec: { domain: {} },
    });
    vm.#owner = {
      apiVersion: "kubevirt.io/v1",
      kind,
      name,
      controller: true,
      uid: vmi.metadata.uid,
    };
    return vm;
  }

  get launcher(): Launcher {
    if (this.#active === undefined) throw new Error("no launcher runs");
    return this.#active;
  }

  /**
   * Starts a launcher with a new pod's annotation, or with the given text of another version; resolves when the guest
   * has its NICs.
   */
  async start(annotation = annotationOfNew(this.#vmi, this.#version)): Promise<Launcher> {
    this.#vmi = { ...this.#vmi, status: [] };
    const launcher = await this.#runLauncher(annotation ?? "");
    this.#active = launcher;
    if (this.isHandled) await this.#wireAll(launcher);
    return launcher;
  }

  /** Adds a NIC to the running VM, like a user. */
  plug(...nics: readonly Nic[]): void {
    const { interfaces, networks } = specOf(...nics);
    const before = cleared(this.#vmi);
    this.#vmi = {
      ...before,
      interfaces: [...before.interfaces, ...interfaces.slice(1)],
      networks: [...before.networks, ...networks.slice(1)],
    };
  }

  /** Marks a NIC absent, like a user; KubeVirt ignores it with ordinal names. */
  async unplug(...ifaces: readonly string[]): Promise<void> {
    const { seen: observed } = await this.#seen(this.launcher);
    if (isOrdinal(observed)) return;
    const interfaces = this.#vmi.interfaces.map((iface) =>
      ifaces.includes(iface.name) ? { ...iface, state: "absent" } : iface,
    );
    this.#vmi = { ...this.#vmi, interfaces };
  }

  /** Writes `multus.networkName`, like a user. */
  changeNad(iface: string, nad: string): void {
    const networks = this.#vmi.networks.map((network) =>
      network.name === iface ? { name: iface, multus: { networkName: nad } } : network,
    );
    this.#vmi = { ...this.#vmi, networks };
  }

  /** Runs KubeVirt's controllers until the VM has exactly these NICs, in pod and domain. */
  async settle(...ifaces: readonly string[]): Promise<void> {
    await eventually(async () => {
      await this.pass();
      const known = this.#vmi.status.filter(({ name }) => name !== "default");
      const done = known.filter((entry) => isInPod(entry) && isInDomain(entry));
      const namesOf = (all: readonly PlayedStatus[]): string =>
        all
          .map(({ name }) => name)
          .toSorted()
          .join();
      const isDone = namesOf(known) === namesOf(done);
      if (isDone && namesOf(done) === ifaces.toSorted().join()) return true;
      throw new Error(`status.interfaces: ${JSON.stringify(known)}`);
    }, WITHIN);
  }

  /** Migrates to a second launcher; the first ends. `whileBoth` runs while both have NICs. */
  async migrate(
    whileBoth: (source: Launcher, target: Launcher) => Promise<void>,
  ): Promise<Launcher> {
    const source = this.launcher;
    const observed = await this.#seen(source);
    const annotation = annotationOfTarget(this.#vmi, observed, this.#version);
    const target = await this.#runLauncher(annotation ?? "");
    await this.#nicsIn(target);
    await whileBoth(source, target);
    // Without NICs to be unplugged.
    const absent = this.#vmi.interfaces.filter(isAbsent).map(({ name }) => name);
    const status = this.#vmi.status.filter(({ name }) => !absent.includes(name));
    this.#vmi = cleared({ ...this.#vmi, status });
    this.#active = target;
    await this.#wireAll(target);
    await this.#endOne(source);
    return target;
  }

  /** Deletes its pods and sandboxes. */
  async end(): Promise<void> {
    for (const launcher of this.#running) await this.#endOne(launcher);
  }

  async #endOne(launcher: Launcher): Promise<void> {
    const key = { namespace: NAMESPACE, name: launcher.name };
    await this.#machine.admin.store.delete(PODS, key, { gracePeriodSeconds: 0 });
    this.#machine.node.dropSandbox(launcher.sandbox);
    this.#running.delete(launcher);
  }

  /** NICs by network, once all of the pod's initial NICs are reported: a pod with Multus is not ready before. */
  async #nicsIn(launcher: Launcher): Promise<ReadonlyMap<string, string>> {
    const expected = this.#vmi.interfaces
      .filter((iface) => !isAbsent(iface))
      .map(({ name }) => name);
    return eventually(async () => {
      const { seen: observed } = await this.#seen(launcher);
      const reported = observed.map((entry) => entry.interface);
      const nics = schemeOf(this.#vmi.networks, observed);
      return expected.every((name) => reported.includes(nics.get(name))) ? nics : undefined;
    }, WITHIN);
  }

  /** Phase 1 of a new launcher: all bridge NICs, whatever was reported of them. */
  async #wireAll(launcher: Launcher): Promise<void> {
    const nics = await this.#nicsIn(launcher);
    const bridged = this.#vmi.interfaces.filter(
      (iface) => iface.bridge !== undefined && !isAbsent(iface),
    );
    for (const { name } of bridged) {
      this.#wire(launcher.sandbox, nics.get(name) ?? "");
      const isKnown = this.#vmi.status.some((entry) => entry.name === name);
      if (!isKnown) this.#vmi = { ...this.#vmi, status: [...this.#vmi.status, { name }] };
      this.#tell(name, (status) => withDomain(status, true));
    }
  }

  /** One pass of each controller. */
  async pass(): Promise<void> {
    const launcher = this.launcher;
    const pod = await this.#seen(launcher);
    this.#vmi = cleared(this.#vmi);
    this.#vmi = { ...this.#vmi, status: reportedStatus(this.#vmi, pod.seen) };
    const text = annotationOfLive(this.#vmi, pod, this.#version);
    if (text !== undefined) await this.#machine.ask(NAMESPACE, launcher.name, text);
    if (this.isHandled) this.#handle(launcher, schemeOf(this.#vmi.networks, pod.seen));
  }

  /** virt-handler and its guest. */
  #handle({ sandbox }: Launcher, nics: ReadonlyMap<string, string>): void {
    const nicOf = (name: string): string => nics.get(name) ?? "";
    for (const name of toPlug(this.#vmi)) {
      this.#wire(sandbox, nicOf(name));
      this.#tell(name, (status) => withDomain(status, true));
    }
    for (const { name } of this.#vmi.interfaces.filter(isAbsent)) {
      this.#tell(name, (status) =>
        this.isGuestSlow && isInPod(status) ? status : withDomain(status, false),
      );
    }
    for (const name of toUnplug(this.#vmi)) unwire(sandbox.id, nicOf(name));
    const isKnown = (status: PlayedStatus): boolean =>
      status.name === "default" || isInDomain(status) || isInPod(status);
    this.#vmi = { ...this.#vmi, status: this.#vmi.status.filter(isKnown) };
  }

  /** A failed setup is not retried. Source: v1.9 pkg/network/setup/netpod/state.go. */
  #wire({ id }: Sandbox, nic: string): void {
    if (this.#critical !== undefined) throw this.#critical;
    try {
      wire(id, nic);
    } catch (error) {
      this.#critical = new Error(`virt-handler cannot prepare ${nic}`, { cause: error });
      throw this.#critical;
    }
  }

  #tell(name: string, change: (status: PlayedStatus) => PlayedStatus): void {
    const status = this.#vmi.status.map((entry) => (entry.name === name ? change(entry) : entry));
    this.#vmi = { ...this.#vmi, status };
  }

  async #runLauncher(networks: string): Promise<Launcher> {
    this.#launchers += 1;
    const name = `virt-launcher-${this.#name}-${String(this.#launchers)}`;
    const metadata = {
      ownerReferences: [this.#owner],
      labels: LAUNCHER_LABELS,
    } as Partial<Pod["metadata"]>; // created by `create`
    const sandbox = await this.#machine.runPod({
      namespace: NAMESPACE,
      name,
      networks,
      metadata,
      containers: LAUNCHER_CONTAINERS,
      prepare: (made) => {
        this.prepare(made);
        return Promise.resolve({
          [names.NETWORK_STATUS_ANNOTATION]: JSON.stringify([POD_NETWORK]),
        });
      },
    });
    const launcher = { name, uid: sandbox.podUid, sandbox };
    this.#running.add(launcher);
    return launcher;
  }

  async #seen({ name }: Launcher): Promise<SeenPod> {
    const pod = await this.#machine.admin.store.find(PODS, { namespace: NAMESPACE, name });
    const annotations = pod?.metadata.annotations ?? {};
    return {
      annotation: annotations[names.NETWORKS_ANNOTATION] ?? "",
      seen: parseNetworkStatus(annotations[names.NETWORK_STATUS_ANNOTATION]),
    };
  }
}
