// SPDX-License-Identifier: Apache-2.0
// The libvirt domain of a VMI.
import {
  names,
  type NetworkConfig,
  type VirtualMachineInstance,
  type VmiSpec,
} from "@patchbay/api";
import { layoutOf, PLAIN_MACHINE, type DomainDefinition, type Topology } from "@patchbay/domain";
import type { IfaceFacts } from "../../iface/facts.ts";
import { domainNameOf } from "./domain-name.ts";
import { nicDefinitionOf } from "./nic.ts";
import { inLauncher, kernelFilesOf } from "../../spec/kernel.ts";
import { machineOf, vcpusOf } from "../../spec/machine.ts";
import { memoryMiBOf } from "../../spec/memory.ts";
import { planVmiTopology, queuesOf, topologyVersionOf } from "../../pcie/topology.ts";

function kernelOf(domain: VmiSpec["domain"]): NonNullable<DomainDefinition["kernel"]> {
  const { kernel, initrd } = kernelFilesOf(domain);
  const args = domain.firmware?.kernelBoot?.kernelArgs;
  return {
    path: inLauncher(kernel),
    ...(initrd === undefined ? {} : { initrdPath: inLauncher(initrd) }),
    ...(args === undefined ? {} : { args }),
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
    ...PLAIN_MACHINE,
    cpu: settings.useEmulation
      ? PLAIN_MACHINE.cpu
      : { model: { mode: "host-passthrough" }, features: [] },
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
