// SPDX-License-Identifier: Apache-2.0
// The libvirt domain of a VMI.
import type { NetworkConfig, VirtualMachineInstance } from "@patchbay/api";
import { layoutOf, type DomainDefinition, type Topology } from "@patchbay/domain";
import type { IfaceFacts } from "../../iface/facts.ts";
import { topologyVersionOf } from "../../pcie/kept.ts";
import { planVmiTopology, queuesOf } from "../../pcie/topology.ts";
import { machineOf, vcpusOf } from "../../spec/machine.ts";
import { memoryMiBOf } from "../../spec/memory.ts";
import { isForVhostUser } from "../../bindings/for-vhost-user.ts";
import { domainNameOf } from "./domain-name.ts";
import { guestDevicesOf } from "./guest/devices.ts";
import { controllersOf, diskDefinitionsOf } from "./guest/disks.ts";
import { ioThreadsOf } from "./guest/io-threads.ts";
import { clockOf, cpuOf, featuresOf, firmwareOf, identityOf, kernelOf } from "./guest/machine.ts";
import { nicDefinitionOf } from "./nic.ts";

/** Of a VMI that cannot be laid out, which is never started. */
const NO_TOPOLOGY: Topology = { ports: [], bridges: [], addresses: new Map(), fixed: new Map() };

/** What a domain is made of beside the VMI. */
export interface DomainSettings {
  readonly useEmulation: boolean;
  readonly uuid: string;
  readonly network: NetworkConfig;
}

function nicsOf(
  { vmi, topology, network }: DomainParts,
  wired: readonly IfaceFacts[],
): DomainDefinition["nics"] {
  const { hasKubeVirtDefaults } = layoutOf(topologyVersionOf(vmi));
  return wired.flatMap((facts) => {
    const pciAddress = topology.addresses.get(facts.name);
    const queues = queuesOf(vmi.spec, facts.iface, network);
    const isBooted = hasKubeVirtDefaults && facts.iface?.bootOrder !== undefined;
    const rom = isBooted ? ({ hasBootRom: true } as const) : {};
    return pciAddress === undefined ? [] : [nicDefinitionOf(facts, { pciAddress, queues, ...rom })];
  });
}

interface DomainParts {
  readonly vmi: VirtualMachineInstance;
  readonly topology: Topology;
  readonly network: NetworkConfig;
}

/**
 * The domain of a VMI with the NICs that are wired, in the order of the spec; the others keep their places free.
 * The VMI has no problem of `vmiStartProblems`.
 */
export function planDomain(
  vmi: VirtualMachineInstance,
  wired: readonly IfaceFacts[],
  { useEmulation, uuid, network }: DomainSettings,
): DomainDefinition {
  const { domain } = vmi.spec;
  const plan = planVmiTopology(vmi, network);
  const topology: Topology = plan.ok ? plan.topology : NO_TOPOLOGY;
  const { sharesMemory, hasKubeVirtDefaults } = layoutOf(topologyVersionOf(vmi));
  const speaksVhostUser = isForVhostUser(vmi.spec, network.bindings);
  const ioThreads = ioThreadsOf(vmi.spec);
  return {
    name: domainNameOf(vmi),
    uuid,
    accelerator: useEmulation ? "qemu" : "kvm",
    machine: machineOf(domain),
    vcpus: vcpusOf(domain),
    memoryMiB: memoryMiBOf(domain),
    sharesMemory: (sharesMemory && network.sharedMemory) || speaksVhostUser,
    // Source: measured, QEMU 7.2 without KVM ends with a fault when such a NIC with vectors is used.
    ...(speaksVhostUser && useEmulation && { hasNoNicVectors: true }),
    cpu: cpuOf(domain, { useEmulation, hasKubeVirtDefaults }),
    firmware: firmwareOf(domain),
    ...kernelOf(domain),
    identity: identityOf(domain),
    features: featuresOf(domain),
    clock: clockOf(domain),
    ioThreads: ioThreads.count,
    controllers: controllersOf(vmi, topology, ioThreads),
    disks: diskDefinitionsOf(vmi, topology, ioThreads),
    nics: nicsOf({ vmi, topology, network }, wired),
    ports: topology.ports,
    bridges: topology.bridges,
    ...guestDevicesOf(vmi, topology),
  };
}
