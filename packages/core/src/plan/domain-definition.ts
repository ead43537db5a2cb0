// SPDX-License-Identifier: Apache-2.0
// The libvirt domain of a VMI.
import {
  names,
  type NetworkConfig,
  type VirtualMachineInstance,
  type VmiSpec,
  normalizeMac,
} from "@patchbay/api";
import {
  layoutOf,
  type DomainDefinition,
  type NicDefinition,
  type PciAddress,
  type Topology,
} from "@patchbay/domain";
import type { IfaceFacts } from "../iface/facts.ts";
import { namesOf, type Sha256Hex } from "../iface/names.ts";
import { machineOf, vcpusOf } from "./machine.ts";
import { memoryMiBOf } from "./memory.ts";
import { modelOf, planVmiTopology, queuesOf, topologyVersionOf } from "./pci-topology.ts";

/** Name of the domain. Source: KubeVirt api.VMINamespaceKeyFunc. */
export function domainNameOf(vmi: VirtualMachineInstance): string {
  return `${vmi.metadata.namespace ?? ""}_${vmi.metadata.name}`;
}

/** The machine's UUID, the same at every start: a version 8 UUID of its name. Source: RFC 9562 section 5.8. */
export function machineUuidOf(vmi: VirtualMachineInstance, sha256Hex: Sha256Hex): string {
  const hex = sha256Hex(domainNameOf(vmi));
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `8${hex.slice(13, 16)}`,
    `8${hex.slice(17, 20)}`,
    hex.slice(20, 32),
  ].join("-");
}

/** Where a NIC goes, and how many pairs of queues it has. */
export interface NicPlace {
  readonly pciAddress: PciAddress;
  readonly queues: number;
}

/** The NIC of an iface that is wired and has its MAC. */
export function nicDefinitionOf(facts: IfaceFacts, place: NicPlace): NicDefinition {
  const { tapName, alias } = namesOf(facts.name, facts.podInterfaceName);
  const { bootOrder, acpiIndex } = facts.iface ?? {};
  return {
    alias,
    mac: macOf(facts),
    model: modelOf(facts.iface),
    tapName,
    mtu: facts.links.mtu,
    linkUp: facts.iface?.state !== "down",
    ...place,
    ...(bootOrder === undefined ? {} : { bootOrder }),
    ...(acpiIndex === undefined ? {} : { acpiIndex }),
  };
}

/** The guest's MAC: what the spec says, else what CNI gave the pod NIC; lower case with colons. */
export function macOf(facts: Pick<IfaceFacts, "iface" | "attachment">): string {
  const mac = facts.iface?.macAddress ?? facts.attachment?.mac ?? "";
  return normalizeMac(mac);
}

function kernelOf(domain: VmiSpec["domain"]): DomainDefinition["kernel"] {
  const boot = domain.firmware?.kernelBoot;
  const inKernelDir = (path: string): string =>
    `${names.KERNEL_BOOT_DIR}/${path.replace(/^\/+/, "")}`;
  const initrd = boot?.container?.initrdPath;
  return {
    path: inKernelDir(boot?.container?.kernelPath ?? "vmlinuz"),
    ...(initrd === undefined ? {} : { initrdPath: inKernelDir(initrd) }),
    ...(boot?.kernelArgs === undefined ? {} : { args: boot.kernelArgs }),
  };
}

/** Of a VMI that cannot be laid out, which is never started. */
const NO_TOPOLOGY: Topology = { ports: [], addresses: new Map(), fixed: new Map() };

function inLauncherDir(name: string): string {
  return `${names.LAUNCHER_DIR}/${name}`;
}

function agentOf({ fixed }: Topology): Pick<DomainDefinition, "agent"> {
  const pciAddress = fixed.get("guestAgent");
  if (pciAddress === undefined) return {};
  return { agent: { socketPath: inLauncherDir(names.AGENT_SOCKET), pciAddress } };
}

/** What a domain is made of beside the VMI. */
export interface DomainSettings {
  readonly useEmulation: boolean;
  readonly uuid: string;
  readonly network: NetworkConfig;
}

/**
 * The domain of a VMI with the NICs that are wired, in the order of the spec; the others keep their places free.
 * The VMI has no problem of `vmiStartProblems`.
 */
export function planDomain(
  vmi: VirtualMachineInstance,
  wired: readonly IfaceFacts[],
  settings: DomainSettings,
): DomainDefinition {
  const { domain } = vmi.spec;
  const plan = planVmiTopology(vmi, settings.network);
  const topology: Topology = plan.ok ? plan.topology : NO_TOPOLOGY;
  const { sharesMemory } = layoutOf(topologyVersionOf(vmi));
  const nics = wired.flatMap((facts) => {
    const pciAddress = topology.addresses.get(facts.name);
    const queues = queuesOf(vmi.spec, facts.iface, settings.network);
    return pciAddress === undefined ? [] : [nicDefinitionOf(facts, { pciAddress, queues })];
  });
  return {
    name: domainNameOf(vmi),
    uuid: settings.uuid,
    accelerator: settings.useEmulation ? "qemu" : "kvm",
    machine: machineOf(domain),
    vcpus: vcpusOf(domain),
    memoryMiB: memoryMiBOf(domain),
    sharesMemory: sharesMemory && settings.network.sharedMemory,
    kernel: kernelOf(domain),
    nics,
    ports: topology.ports,
    ...agentOf(topology),
    console: {
      socketPath: inLauncherDir(names.CONSOLE_SOCKET),
      logPath: inLauncherDir(names.CONSOLE_LOG),
    },
  };
}
