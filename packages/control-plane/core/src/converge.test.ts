// SPDX-License-Identifier: Apache-2.0
// All plans together, on a world in memory: whatever a user asks for, in whatever order the loops run, comes true,
// and nothing is torn down under something that still uses it.
import {
  names,
  networkConfigOf,
  type VirtualMachine,
  type VirtualMachineInstance,
} from "@patchbay/api";
import {
  parseNetworks,
  parseNetworkStatus,
  printNetworkStatus,
  type NetworkStatus,
} from "@patchbay/api/annotations";
import type { Pod } from "@patchbay/api/kubernetes";
import { validateVmiSpec } from "@patchbay/api/validate";
import type { NicFacts } from "@patchbay/domain";
import { aVm, type NicSketch } from "@patchbay/support";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { ObservedWiring } from "./nics/bindings/pod-wiring.ts";
import { isEqual } from "@patchbay/base";
import { collectIfaceFacts } from "./nics/phase.ts";
import type { IfaceFacts } from "./nics/facts.ts";
import type { KernelLink } from "./nics/links/link-facts.ts";
import { EMPTY_GUEST_VIEW } from "./guest/agent-view.ts";
import { buildTapName, buildIfaceNames } from "./nics/names.ts";
import { withMacs } from "./nics/mac.ts";
import { listExpectedWirings, withWired } from "./nics/node-plan.ts";
import { withNics } from "./nics/nics.ts";
import { buildNodeVmStatus } from "./status/node-vm.ts";
import { buildVmiStatus } from "./status/vmi.ts";
import { planNodeVm, type NodeAction, type NodeVmFacts } from "./vm/node/node-vm.ts";
import { planVm } from "./vm/vm.ts";
import { planVmi } from "./vm/vmi.ts";
import { withPlug } from "./nics/spec-plan.ts";
import { NO_STORAGE, SETTINGS } from "./testing/launcher-facts.ts";

const NOW = "2026-01-01T00:00:00.000Z";
const PORTS = 8;
const NETWORK = networkConfigOf(undefined);

type SketchedLink = KernelLink & { readonly master?: string };
/** One VM; the guest may sit on unplug requests. */
class World {
  vm: VirtualMachine;
  vmi: VirtualMachineInstance | undefined;
  pod: Pod | undefined;
  links = new Map<string, SketchedLink>();
  nics = new Map<string, NicFacts>();
  running = false;
  readonly asked = new Set<string>();
  readonly violations: string[] = [];

  constructor(nics: readonly NicSketch[]) {
    this.vm = aVm({ nics });
  }

  edit(nics: readonly NicSketch[]): void {
    const { template } = aVm({ nics }).spec;
    this.vm = { ...this.vm, spec: { ...this.vm.spec, template } };
  }

  #replaceTemplate(spec: VirtualMachineInstance["spec"]): void {
    this.vm = { ...this.vm, spec: { ...this.vm.spec, template: { spec } } };
  }

  vmLoop(): boolean {
    const plan = planVm({
      vm: this.vm,
      vmi: this.vmi,
      now: NOW,
      hasNameConflict: false,
      startProblems: [],
      missingDataVolumes: [],
      bindings: NETWORK.bindings,
      isStaged: false,
      waitsForBinding: false,
    });
    for (const action of plan) {
      if (action.kind === "createVmi")
        this.vmi = { ...action.vmi, metadata: { ...action.vmi.metadata, uid: "vmi-uid" } };
      if (action.kind === "patchVmiNics" && this.vmi !== undefined) {
        const { planned: retained, plugs } = action.change;
        const to = plugs.reduce(withPlug, retained);
        this.vmi = { ...this.vmi, spec: withNics(this.vmi.spec, to.networks, to.ifaces) };
        // What admission would refuse is never tried.
        this.violations.push(
          ...validateVmiSpec(this.vmi.spec, "spec").map(({ message }) => message),
        );
      }
      const { spec } = this.vm.spec.template;
      if (action.kind === "patchTemplateNics")
        this.#replaceTemplate(withNics(spec, action.to.networks, action.to.ifaces));
      if (action.kind === "setMacAddresses") {
        const sources = {
          namespace: "default",
          bindings: {},
          earlier: this.vmi === undefined ? [] : [this.vmi.spec],
        };
        const ifaces = withMacs(spec, {
          ...sources,
          randomBytes: (size) => new Uint8Array(size).map(() => (this.#draws += 1) % 251),
        });
        this.#replaceTemplate(withNics(spec, spec.networks ?? [], ifaces));
      }
    }
    return plan.length > 0;
  }

  #draws = 0;

  vmiLoop(): boolean {
    if (this.vmi === undefined) return false;
    const cluster = { network: NETWORK, storage: NO_STORAGE };
    const nothing = { definitions: new Map(), absences: new Map() };
    const facts = { vmi: this.vmi, pod: this.pod, ...cluster, ...nothing };
    const plan = planVmi({ ...facts, settings: SETTINGS });
    for (const action of plan) {
      if (action.kind === "createPod") this.pod = this.#started(action.pod);
      if (action.kind === "patchPodNetworks") this.#setNetworks(action.value);
      if (action.kind === "labelNode") {
        const labels = { [names.NODE_NAME_LABEL]: action.node };
        this.vmi = { ...this.vmi, metadata: { ...this.vmi.metadata, labels } };
      }
    }
    const report = { ...facts, vmi: this.vmi, pod: this.pod, failures: [] };
    const status = buildVmiStatus(report, NOW);
    const others = Object.entries(this.vmi.status ?? {}).filter(([key]) => key !== "attachments");
    const next = { ...Object.fromEntries(others), ...status };
    const changed = !isEqual(this.vmi.status, next);
    this.vmi = { ...this.vmi, status: next };
    return changed || plan.length > 0;
  }

  #started(pod: Pod): Pod {
    return {
      ...pod,
      metadata: { ...pod.metadata, uid: "pod-uid" },
      spec: { ...pod.spec, nodeName: "node1" },
      status: { phase: "Running", podIPs: [{ ip: "10.88.0.2" }] },
    };
  }

  #setNetworks(to: string): void {
    if (this.pod === undefined) return;
    const annotations = { ...this.pod.metadata.annotations, [names.NETWORKS_ANNOTATION]: to };
    this.pod = { ...this.pod, metadata: { ...this.pod.metadata, annotations } };
  }

  #wantedStatus(pod: Pod): readonly NetworkStatus[] {
    const parsed = parseNetworks(pod.metadata.annotations?.[names.NETWORKS_ANNOTATION]);
    return (parsed.ok ? parsed.elements : []).map((element) => ({
      name: `${element.namespace ?? ""}/${element.name}`,
      interface: element.interface ?? "",
      mac: element.mac ?? "",
    }));
  }

  #deleteLink(name: string): void {
    if (this.links.get(name)?.master !== undefined) {
      this.violations.push(`${name} removed under its bridge`);
    }
    this.links.delete(name);
  }

  netAgent(): boolean {
    if (this.pod === undefined) return false;
    const status = this.#wantedStatus(this.pod);
    const wanted = status.map((entry) => entry.interface ?? "");
    for (const name of wanted) {
      if (!this.links.has(name)) this.links.set(name, { name, mtu: 1500, carrier: true });
    }
    const nics = [...this.links.keys()].filter((link) => link.startsWith("pod"));
    for (const name of nics.filter((nic) => !wanted.includes(nic))) this.#deleteLink(name);
    const text = printNetworkStatus(status);
    const before = this.pod.metadata.annotations ?? {};
    const annotations = { ...before, [names.NETWORK_STATUS_ANNOTATION]: text };
    this.pod = { ...this.pod, metadata: { ...this.pod.metadata, annotations } };
    return before[names.NETWORK_STATUS_ANNOTATION] !== text;
  }

  #facts(vmi: VirtualMachineInstance): NodeVmFacts {
    const nics = [...this.nics.values()];
    const pciAddresses = nics.flatMap(({ pciAddress }) => pciAddress ?? []);
    const controllers = Array.from({ length: PORTS }, (_unused, index) => ({
      index: index + 1,
      model: "pcie-root-port",
      hotplug: true,
    }));
    const machine = { family: "q35" as const, vcpus: 1, sharesMemory: true };
    const none = { agentConnected: false, devices: [], paths: [] };
    const facts = { ...machine, ...none, nics, controllers, pciAddresses };
    const links = [...this.links.values()];
    const sources = { vmi, links, nics, guest: EMPTY_GUEST_VIEW, bindings: NETWORK.bindings };
    return {
      vmi,
      role: "owner",
      useEmulation: true,
      network: NETWORK,
      ifaces: this.#judged(collectIfaceFacts(sources)),
      domain: this.running ? { running: true, isPaused: false, crashed: false, facts } : undefined,
      uuid: "6f1c1a52-7f0c-8c0e-8d36-0a2b1d5b7c11",
      unplugRequests: Object.fromEntries(
        [...this.asked].map((iface) => [iface, { count: 1, agoMs: 0, isRefused: false }]),
      ),
    };
  }

  #judged(ifaces: readonly IfaceFacts[]): readonly IfaceFacts[] {
    const whole = listExpectedWirings(ifaces).filter((wiring) => this.#isWired(wiring));
    return withWired(ifaces, new Set(whole.map(({ tapName }) => tapName)));
  }

  #isWired(wiring: ObservedWiring): boolean {
    if (wiring.kind !== "bridge") return false;
    const { podInterfaceName, bridgeName, tapName } = wiring;
    const ports = [podInterfaceName, tapName];
    return ports.every((port) => this.links.get(port)?.master === bridgeName);
  }

  handler(): boolean {
    if (this.vmi?.status?.activePods === undefined) return false;
    const facts = this.#facts(this.vmi);
    const plan = planNodeVm(facts);
    // Only a device may come behind its links.
    const last = plan.filter(({ kind }) => kind !== "wireTap");
    const ifaces = last.flatMap((action) => ("iface" in action ? [action.iface] : []));
    if (new Set(ifaces).size < ifaces.length)
      this.violations.push(`two steps for one iface: ${ifaces.join(", ")}`);
    for (const action of plan) this.#perform(action);
    const after = this.#facts(this.vmi);
    const status = {
      ...this.vmi.status,
      ...buildNodeVmStatus(after, { blockedReasons: {}, now: NOW }),
    };
    const changed = !isEqual(status, this.vmi.status);
    this.vmi = { ...this.vmi, status };
    return changed || plan.some(({ kind }) => kind !== "wait");
  }

  #perform(action: NodeAction): void {
    if (action.kind === "wireTap" && action.wiring.kind === "bridge") {
      const { podInterfaceName, bridgeName, tapName } = action.wiring;
      const port = { mtu: 1500, master: bridgeName };
      this.links.set(podInterfaceName, { ...port, name: podInterfaceName, carrier: true });
      this.links.set(tapName, { ...port, name: tapName, carrier: false });
      this.links.set(bridgeName, { name: bridgeName, mtu: 1500, carrier: false });
    }
    if (action.kind === "unwireTap" && action.wiring.kind === "bridge") {
      const { tapName, bridgeName } = action.wiring;
      if ([...this.nics.values()].some((nic) => nic.tapName === tapName))
        this.violations.push(`${tapName} removed under its device`);
      this.links.delete(tapName);
      this.links.delete(bridgeName);
      for (const link of this.links.values()) {
        if (link.master === bridgeName)
          this.links.set(link.name, { name: link.name, mtu: 1500, carrier: true });
      }
    }
    if (action.kind === "swapNetwork") this.#swap(action);
    if (action.kind === "removeBridge") this.#removeBridge(action.bridgeName);
    if (action.kind === "startDomain") this.running = true;
    if (action.kind === "defineDomain") this.#plugXml(action.xml);
    if (action.kind === "attachDevice") this.#plugXml(action.xml);
    if (action.kind === "detachDevice") this.asked.add(action.iface);
  }

  /** The tap stays open. */
  #swap({ to, iface }: Extract<NodeAction, { kind: "swapNetwork" }>): void {
    const { podInterfaceName, bridgeName, tapName } = to;
    const tap = this.links.get(tapName);
    if (!this.links.has(podInterfaceName)) this.violations.push(`${iface} is swapped to nothing`);
    const port = { mtu: 1500, carrier: true, master: bridgeName };
    this.links.set(podInterfaceName, { ...port, name: podInterfaceName });
    this.links.set(bridgeName, { name: bridgeName, mtu: 1500, carrier: false });
    if (tap !== undefined) this.links.set(tapName, { ...tap, master: bridgeName });
  }

  #removeBridge(bridgeName: string): void {
    this.links.delete(bridgeName);
    for (const { master, ...link } of [...this.links.values()]) {
      if (master !== bridgeName) continue;
      if ([...this.nics.values()].some((nic) => nic.tapName === link.name))
        this.violations.push(`${bridgeName} removed under a device`);
      this.links.set(link.name, link);
    }
  }

  /** The network on which each iface is, as the pod says. */
  networks(): Readonly<Record<string, string | undefined>> {
    const { annotations } = this.pod?.metadata ?? {};
    const status = parseNetworkStatus(annotations?.[names.NETWORK_STATUS_ANNOTATION]);
    const { interfaces = [] } = this.vmi?.status ?? {};
    const places = interfaces.map(({ name = "", podInterfaceName: nic }) => {
      const network = status.find((entry) => entry.interface === nic)?.name;
      return [name, network] as const;
    });
    return Object.fromEntries(places);
  }

  #plugXml(xml: string): void {
    for (const [, body = ""] of xml.matchAll(/<interface type="ethernet">(.*?)<\/interface>/gs)) {
      const find = (pattern: RegExp): string => pattern.exec(body)?.[1] ?? "";
      const alias = find(/alias name="([^"]+)"/);
      const bus = Number(find(/bus="(0x[0-9a-f]+)"/));
      const inUse = [...this.nics.values()].some((nic) => nic.pciAddress?.bus === bus);
      if (inUse || this.nics.has(alias)) this.violations.push(`${alias} twice, or its port in use`);
      const tapName = find(/target dev="([^"]+)"/);
      const tap = this.links.get(tapName);
      if (tap !== undefined) this.links.set(tapName, { ...tap, carrier: true });
      this.nics.set(alias, {
        alias,
        mac: find(/mac address="([^"]+)"/),
        tapName,
        pciAddress: { bus, slot: 0, function: 0 },
        linkUp: true,
        model: "virtio",
        queues: 1,
      });
    }
  }

  /** The guest lets go of what it was asked for. */
  guest(): boolean {
    const changed = this.asked.size > 0;
    for (const iface of this.asked) this.nics.delete(`ua-${iface}`);
    this.asked.clear();
    return changed;
  }

  settle(): number {
    for (let round = 1; round <= 60; round += 1) {
      const steps = [this.vmLoop(), this.vmiLoop(), this.netAgent(), this.handler(), this.guest()];
      if (!steps.some(Boolean)) return round;
    }
    return Infinity;
  }
}

const NAMES = ["a", "b", "c"] as const;
const LOOPS = ["vmLoop", "vmiLoop", "netAgent", "handler", "guest"] as const;

type Step =
  | { readonly kind: "edit"; readonly nics: readonly NicSketch[] }
  | { readonly kind: "loop"; readonly loop: (typeof LOOPS)[number] };

const options: fc.Arbitrary<NicSketch> = fc.record(
  {
    name: fc.constantFrom(...NAMES),
    network: fc.constantFrom("blue", "red"),
    state: fc.constantFrom("absent", "up"),
    mac: fc.constantFrom("02:00:00:00:00:01", "02:00:00:00:00:02"),
  },
  { requiredKeys: ["name"] },
);
/** No two of one MAC on one network: admission of the VM sees to that. */
const sketches = fc
  .uniqueArray(options, { selector: ({ name }) => name, maxLength: 3 })
  .filter((nics) => {
    const placed = nics.flatMap(({ mac, network = "blue" }) =>
      mac === undefined ? [] : [`${mac} ${network}`],
    );
    return new Set(placed).size === placed.length;
  });
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 1, arbitrary: sketches.map((nics) => ({ kind: "edit" as const, nics })) },
  {
    weight: 6,
    arbitrary: fc.constantFrom(...LOOPS).map((loop) => ({ kind: "loop" as const, loop })),
  },
);

function run(world: World, steps: readonly Step[]): void {
  for (const next of steps) {
    if (next.kind === "edit") world.edit(next.nics);
    else world[next.loop]();
  }
}

describe("all loops together", () => {
  test("converge to the last request in any order, and then stop", () => {
    fc.assert(
      fc.property(sketches, fc.array(step, { maxLength: 60 }), (first, steps) => {
        const world = new World(first);
        run(world, steps);
        const wanted = [{ name: "a" }, { name: "d", network: "green" }];
        world.edit(wanted);
        expect(world.settle()).toBeLessThan(60);
        expect(world.violations).toEqual([]);
        expect([...world.nics.keys()].sort()).toEqual(["ua-a", "ua-d"]);
        const statuses = world.vmi?.status?.interfaces ?? [];
        const links = statuses.flatMap(({ name = "", podInterfaceName: nic = "" }) => {
          const { bridgeName } = buildIfaceNames(name, nic);
          return [nic, bridgeName, buildTapName(name, nic)];
        });
        expect([...world.links.keys()].sort()).toEqual(links.sort());
        expect(world.networks()).toEqual({ a: "default/blue", d: "default/green" });
        expect(world.vmi?.status?.interfaces?.map(({ hotplug }) => hotplug?.phase)).toEqual([
          "Ready",
          "Ready",
        ]);
      }),
      { numRuns: 300 },
    );
  });
});
