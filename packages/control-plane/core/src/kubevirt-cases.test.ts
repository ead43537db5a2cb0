// SPDX-License-Identifier: Apache-2.0
// Where Patchbay does as KubeVirt does in the launcher, and where it differs on purpose.
import { names, networkConfigOf, type VmiSpec } from "@patchbay/api";
import { validateVmiSpec } from "@patchbay/api/validate";
import { printDomain, type DomainFacts } from "@patchbay/domain";
import { parseDomain } from "@patchbay/domain/parse";
import { aVmi, type NicSketch } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { NO_LINKS, type IfaceFacts } from "./nics/facts.ts";
import { toAlias } from "./nics/names.ts";
import { planDomain } from "./vm/domain/domain.ts";
import { planNodeVm, type NodeAction, type NodeVmFacts } from "./vm/node/node-vm.ts";
import { planVmiTopology } from "./nics/pcie/topology.ts";

const NETWORK = networkConfigOf(undefined);

interface VmiOptions {
  readonly nics: number;
  readonly memoryGiB?: number;
  readonly pcieRootPorts?: number;
  readonly onRootComplex?: boolean;
}

function aVmiWith({ nics, memoryGiB = 1, pcieRootPorts, onRootComplex }: VmiOptions) {
  const sketches = Array.from({ length: nics }, (_unused, index) => ({
    name: `n${String(index)}`,
  }));
  const vmi = aVmi({ nics: sketches });
  const devices = {
    ...vmi.spec.domain.devices,
    ...(pcieRootPorts === undefined ? {} : { pcieRootPorts }),
  };
  const memory = { guest: `${String(memoryGiB)}Gi` };
  const annotations = onRootComplex === true ? { [names.ROOT_COMPLEX_ANNOTATION]: "true" } : {};
  return {
    ...vmi,
    metadata: { ...vmi.metadata, annotations },
    spec: { ...vmi.spec, domain: { ...vmi.spec.domain, memory, devices } },
  };
}

/** Ports that are free when the VM has started. */
function reserveOf(options: VmiOptions): number {
  const plan = planVmiTopology(aVmiWith(options), NETWORK);
  if (!plan.ok) return Number.NaN;
  const { ports, nicAddresses: addresses, fixedAddresses: fixed } = plan.topology;
  const devices = [...fixed.values(), ...addresses.values()];
  return ports.length - devices.filter(({ bus }) => bus > 0).length;
}

const SAME_FOR_ALL =
  "KubeVirt keeps four in all, less those of the NICs there are; Patchbay keeps as many beside the NICs, whatever the VM has, so that it never runs out by surprise";
const NAMED_BY_OWNER =
  "KubeVirt's annotation counts the NICs at the start too; pcieRootPorts counts what can still be plugged";
const NOT_BY_MEMORY =
  "KubeVirt fills up to a number that grows with the memory; a port costs 0.3 MiB, so Patchbay keeps the same for all";

// Source: KubeVirt v1.9.0-rc.2 pkg/virt-launcher/virtwrap/manager_test.go
describe("free ports for hot-plug", () => {
  test.each([
    {
      name: "v1 placeholders with 1 interfaces",
      vmi: { nics: 1 },
      kubevirt: 3,
      ours: 32,
      why: SAME_FOR_ALL,
    },
    {
      name: "v1 placeholders with 3 interfaces",
      vmi: { nics: 3 },
      kubevirt: 1,
      ours: 32,
      why: SAME_FOR_ALL,
    },
    {
      name: "v1 placeholders with 5 interfaces",
      vmi: { nics: 5 },
      kubevirt: 0,
      ours: 32,
      why: SAME_FOR_ALL,
    },
    {
      name: "placeholders for slot count 2, 3 interfaces",
      vmi: { nics: 3, pcieRootPorts: 2 },
      kubevirt: 0,
      ours: 2,
      why: NAMED_BY_OWNER,
    },
    {
      name: "extra ports: 3 GiB, 10 devices, 3 placeholders",
      vmi: { nics: 10, memoryGiB: 3 },
      kubevirt: 3,
      ours: 32,
      why: NOT_BY_MEMORY,
    },
    {
      name: "extra ports: 1 GiB, 2 devices, 3 placeholders",
      vmi: { nics: 2 },
      kubevirt: 3,
      ours: 32,
      why: NOT_BY_MEMORY,
    },
    {
      name: "extra ports: 1 GiB, 2 devices, 0 placeholders",
      vmi: { nics: 2, pcieRootPorts: 0 },
      kubevirt: 6,
      ours: 0,
      why: "KubeVirt adds ports that nobody asked for; who asks Patchbay for none gets none",
    },
    {
      name: "extra ports: 1 GiB, 7 devices, 3 placeholders",
      vmi: { nics: 7 },
      kubevirt: 0,
      ours: 32,
      why: NOT_BY_MEMORY,
    },
  ])("$name: KubeVirt $kubevirt, Patchbay $ours: $why", ({ vmi, kubevirt, ours }) => {
    expect(reserveOf(vmi)).toBe(ours);
    expect(ours).not.toBe(kubevirt);
  });

  test.each([
    { name: "v1 placeholders on root complex", vmi: { nics: 1, onRootComplex: true }, kubevirt: 0 },
  ])("$name: $kubevirt, like KubeVirt", ({ vmi, kubevirt }) => {
    expect(reserveOf(vmi)).toBe(kubevirt);
  });

  test.each([
    {
      name: "bad slot count is an error",
      // What a client may send is wider than the type.
      pcieRootPorts: "not-a-number" as unknown as number,
      kubevirt: { error: true },
    },
  ])("$name", ({ pcieRootPorts, kubevirt }) => {
    const causes = validateVmiSpec(aVmiWith({ nics: 1, pcieRootPorts }).spec, "spec");
    expect({ error: causes.length > 0 }).toEqual(kubevirt);
    expect(causes.map(({ field }) => field)).toEqual(["spec.domain.devices.pcieRootPorts"]);
  });

  test.each([
    {
      name: "append three controllers after index 2",
      // Beside the channel of the guest's agent.
      vmi: { nics: 1, pcieRootPorts: 3 },
      after: 2,
      kubevirt: { newIndices: [3, 4, 5], models: ["pcie-root-port"] },
    },
  ])("$name", ({ vmi, after, kubevirt }) => {
    const settings = { useEmulation: true, network: NETWORK, uuid: "u" };
    const parsed = parseDomain(printDomain(planDomain(aVmiWith(vmi), [], settings)));
    const added = (parsed.ok ? parsed.domain.controllers : []).filter(({ index }) => index > after);
    expect({
      newIndices: added.map(({ index }) => index),
      models: [...new Set(added.map(({ model }) => model))],
    }).toEqual(kubevirt);
  });
});

interface Row {
  /** Undefined: the VMI declares none. */
  readonly nic?: NicSketch;
  readonly inPod: boolean;
  readonly inDomain: boolean;
  /** Of the NIC in the domain; default: up. */
  readonly linkUp?: boolean;
}

function ifaceFactsOf(
  spec: VmiSpec,
  { nic, inPod, inDomain, linkUp = true }: Row,
): readonly IfaceFacts[] {
  const iface = spec.domain.devices?.interfaces?.[0];
  if (nic === undefined || iface === undefined) return [];
  const podInterfaceName = "pod676b8bb84ce";
  const alias = toAlias(nic.name);
  const mac = "02:00:00:00:00:01";
  const facts: IfaceFacts = {
    name: nic.name,
    iface,
    binding: { kind: "bridge" },
    podInterfaceName,
    links: {
      ...NO_LINKS,
      hasPodInterface: inPod,
      hasTap: true,
      hasBridge: true,
      isWired: true,
      isTapOpen: true,
      mtu: 1500,
    },
    ...(inPod ? { attachment: { name: nic.name, podInterfaceName, state: "Attached", mac } } : {}),
    ...(inDomain ? { device: { alias, mac, linkUp, queues: 1, pciAddress: "0000:01:00.0" } } : {}),
  };
  return [facts];
}

function domainFactsOf({ nic, inDomain, linkUp = true }: Row): DomainFacts {
  const device = { mac: "02:00:00:00:00:01", linkUp, model: "virtio", queues: 1 };
  return {
    family: "q35",
    nics: nic !== undefined && inDomain ? [{ alias: toAlias(nic.name), ...device }] : [],
    controllers: [{ index: 1, model: "pcie-root-port", hotplug: true }],
    pciAddresses: [],
    devices: [],
    vcpus: 1,
    sharesMemory: true,
    agentConnected: false,
    paths: [],
  };
}

function planOf(row: Row): readonly NodeAction[] {
  const vmi = aVmi({
    nics: row.nic === undefined ? [] : [row.nic],
    status: { phase: "Running" },
  });
  const facts: NodeVmFacts = {
    vmi,
    role: "owner",
    ifaces: ifaceFactsOf(vmi.spec, row),
    domain: { running: true, isPaused: false, crashed: false, facts: domainFactsOf(row) },
    useEmulation: true,
    network: NETWORK,
    uuid: "u",
    unplugRequests: {},
  };
  return planNodeVm(facts);
}

/** Each step and whose it is. */
function stepsOf(row: Row): readonly string[] {
  return planOf(row).map((action) =>
    "iface" in action ? `${action.kind} ${action.iface}` : action.kind,
  );
}

// Source: KubeVirt v1.9.0-rc.2 pkg/virt-launcher/virtwrap/network/nichotplug_test.go
describe("plugs and unplugs like KubeVirt", () => {
  test.each([
    { name: "nothing to plug", inPod: false, inDomain: false, kubevirt: [] },
    {
      name: "already in the domain",
      nic: { name: "n1" },
      inPod: true,
      inDomain: true,
      kubevirt: [],
    },
    {
      name: "ready and not in domain",
      nic: { name: "n1" },
      inPod: true,
      inDomain: false,
      kubevirt: ["attachDevice n1"],
    },
    {
      name: "unplug: not absent",
      nic: { name: "n1" },
      inPod: false,
      inDomain: true,
      kubevirt: [],
    },
    {
      name: "unplug: hashed tap is detached",
      nic: { name: "n1", state: "absent" },
      inPod: true,
      inDomain: true,
      kubevirt: ["detachDevice n1"],
    },
    {
      name: "link state down to down",
      nic: { name: "n1", state: "down" },
      inPod: true,
      inDomain: true,
      linkUp: false,
      kubevirt: [],
    },
    // Not one of KubeVirt's: what the pod has not got is not plugged.
    {
      name: "neither in the pod nor in the domain",
      nic: { name: "n1" },
      inPod: false,
      inDomain: false,
      kubevirt: [],
    },
  ])("$name", ({ kubevirt, ...row }) => {
    expect(stepsOf(row)).toEqual(kubevirt);
  });

  test("link state none to down", () => {
    const nic = { name: "n1", state: "down" };
    const [step, ...others] = planOf({ nic, inPod: true, inDomain: true });
    expect(others).toEqual([]);
    expect(step).toMatchObject({ kind: "setLink", iface: "n1" });
    const plug = planOf({ nic, inPod: true, inDomain: false });
    for (const plan of [step, plug]) {
      expect(JSON.stringify(plan)).toContain(String.raw`<link state=\"down\"`);
    }
  });
});
