// SPDX-License-Identifier: Apache-2.0
// Where Patchbay does as KubeVirt does in the launcher, and where it differs on purpose.
import { names, networkConfigOf, type VirtualMachineInstance } from "@patchbay/api";
import { aVmi, type NicSketch } from "@patchbay/testing";
import { describe, expect, test } from "vitest";
import { NO_LINKS, type IfaceFacts } from "../iface/facts.ts";
import { namesOf } from "../iface/names.ts";
import { planNodeVm, type NodeVmFacts } from "./node-vm.ts";
import { planVmiTopology } from "./pci-topology.ts";

const NETWORK = networkConfigOf(undefined);

function reserveOf(vmi: VirtualMachineInstance): number {
  const plan = planVmiTopology(vmi, NETWORK);
  if (!plan.ok) return Number.NaN;
  const { ports, addresses, fixed } = plan.topology;
  return Math.max(0, ports.length - addresses.size - fixed.size);
}

function aVmiWith(nics: number, annotations: Readonly<Record<string, string>> = {}) {
  const sketches = Array.from({ length: nics }, (_unused, index) => ({
    name: `n${String(index)}`,
  }));
  const vmi = aVmi({ nics: sketches });
  return { ...vmi, metadata: { ...vmi.metadata, annotations } };
}

// Source: KubeVirt v1.9.0-rc.2 pkg/virt-launcher/virtwrap/manager_test.go
describe("ports for NICs that come later", () => {
  test.each([
    // KubeVirt keeps four in all, less those of the NICs there are: a VM with five NICs takes none more. Patchbay keeps
    // the same number beside the NICs, whatever the VM has and however much memory: it never runs out by surprise.
    { name: "one NIC", nics: 1, annotations: {}, kubevirt: 3, ours: 32 },
    { name: "three NICs", nics: 3, annotations: {}, kubevirt: 1, ours: 32 },
    { name: "five NICs", nics: 5, annotations: {}, kubevirt: 0, ours: 32 },
    {
      name: "one NIC on the root complex: the same",
      nics: 1,
      annotations: { [names.ROOT_COMPLEX_ANNOTATION]: "true" },
      kubevirt: 0,
      ours: 0,
    },
  ])("$name: KubeVirt $kubevirt, Patchbay $ours", ({ nics, annotations, ours }) => {
    expect(reserveOf(aVmiWith(nics, annotations))).toBe(ours);
  });
});

interface Row {
  readonly nic: NicSketch;
  readonly inPod: boolean;
  readonly inDomain: boolean;
}

function factsOf({ nic, inPod, inDomain }: Row): NodeVmFacts {
  const vmi = aVmi({ nics: [nic], status: { phase: "Running" } });
  const podInterfaceName = "pod676b8bb84ce";
  const { alias } = namesOf(nic.name, podInterfaceName);
  const mac = "02:00:00:00:00:01";
  const iface: IfaceFacts = {
    name: nic.name,
    ...(vmi.spec.domain.devices?.interfaces?.[0] === undefined
      ? {}
      : { iface: vmi.spec.domain.devices.interfaces[0] }),
    podInterfaceName,
    links: { ...NO_LINKS, podInterface: inPod, tap: true, bridge: true, wired: true, mtu: 1500 },
    ...(inPod ? { attachment: { name: nic.name, podInterfaceName, state: "Attached", mac } } : {}),
    ...(inDomain ? { device: { alias, mac, queues: 1, pciAddress: "0000:01:00.0" } } : {}),
  };
  const controllers = [{ index: 1, model: "pcie-root-port", hotplug: true }];
  const facts = { family: "q35", nics: [], controllers, pciAddresses: [], vcpus: 1 } as const;
  return {
    vmi,
    ifaces: [iface],
    domain: {
      running: true,
      crashed: false,
      facts: { ...facts, sharesMemory: true, agentConnected: false },
    },
    useEmulation: true,
    network: NETWORK,
    uuid: "u",
    askedAgoMs: {},
  };
}

// Source: KubeVirt v1.9.0-rc.2 pkg/virt-launcher/virtwrap/network/nichotplug_test.go
describe("what is plugged and unplugged", () => {
  test.each([
    { name: "in the domain already", nic: { name: "n1" }, inPod: true, inDomain: true, want: [] },
    {
      name: "in the pod and not in the domain",
      nic: { name: "n1" },
      inPod: true,
      inDomain: false,
      want: ["attachDevice"],
    },
    {
      name: "absent and in the domain",
      nic: { name: "n1", state: "absent" },
      inPod: true,
      inDomain: true,
      want: ["detachDevice"],
    },
    {
      name: "neither in the pod nor in the domain",
      nic: { name: "n1" },
      inPod: false,
      inDomain: false,
      want: [],
    },
  ])("$name", ({ want, ...row }) => {
    expect(planNodeVm(factsOf(row)).map(({ kind }) => kind)).toEqual(want);
  });
});
