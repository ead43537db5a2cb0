// SPDX-License-Identifier: Apache-2.0
import {
  names,
  type VirtualMachineInstance,
  type VmiSpec,
  type NetworkConfig,
} from "@patchbay/api";
import { findLayout, type DomainDefinition, type Topology } from "@patchbay/domain";
import { sha256Hex } from "../../nics/sha256.ts";
import { buildInputDeviceName, readTopologyVersion } from "../../nics/pcie/devices.ts";
import { findOneOf, hasConsole, listInputs, findTpm } from "../spec/guest-devices.ts";
import {
  VIDEO_MODELS,
  WATCHDOG_ACTIONS,
  buildClock,
  buildCpu,
  buildFeatures,
  buildFirmware,
  buildIdentity,
  buildKernel,
} from "./machine.ts";
import type { IfaceFacts } from "../../nics/facts.ts";
import { planVmiTopology, countQueues } from "../../nics/pcie/topology.ts";
import { buildMachine, countVcpus, computeMemoryMiB } from "../spec/machine.ts";
import { isForVhostUser } from "../../nics/bindings/resolve-binding.ts";
import { buildControllers, buildDisks, planIoThreads } from "./disks.ts";
import { buildNicDefinition } from "../../nics/node-plan.ts";

/** Returns the domain's name, NAMESPACE_NAME. Source: KubeVirt api.VMINamespaceKeyFunc. */
export function domainNameOf(vmi: VirtualMachineInstance): string {
  return `${vmi.metadata.namespace ?? ""}_${vmi.metadata.name}`;
}

const UUID_SYNTAX = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** Returns the requested UUID, or a version 8 UUID derived from the VMI's name. Source: RFC 9562 section 5.8. */
export function buildMachineUuid(vmi: VirtualMachineInstance): string {
  const requestedUuid = vmi.spec.domain.firmware?.uuid ?? "";
  if (UUID_SYNTAX.test(requestedUuid)) return requestedUuid.toLowerCase();
  const hex = sha256Hex(domainNameOf(vmi));
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `8${hex.slice(13, 16)}`,
    `8${hex.slice(17, 20)}`,
    hex.slice(20, 32),
  ].join("-");
}

function launcherPath(name: string): string {
  return `${names.LAUNCHER_DIR}/${name}`;
}

function buildAgent({ fixedAddresses: fixed }: Topology): Pick<DomainDefinition, "agent"> {
  const pciAddress = fixed.get("guestAgent");
  if (pciAddress === undefined) return {};
  return { agent: { socketPath: launcherPath(names.AGENT_SOCKET), pciAddress } };
}

/** Video memory of all video models except virtio, in KiB. Source: KubeVirt. */
const VIDEO_MEMORY_KIB = 16 * 1024;

function buildDisplay(
  { domain }: VmiSpec,
  { fixedAddresses: fixed }: Topology,
): Pick<DomainDefinition, "display"> {
  const pciAddress = fixed.get("display");
  if (pciAddress === undefined) return {};
  const model = findOneOf(VIDEO_MODELS, domain.devices?.video?.type) ?? "vga";
  const memory = model === "virtio" ? {} : { memoryKiB: VIDEO_MEMORY_KIB };
  return { display: { socketPath: launcherPath(names.VNC_SOCKET), model, ...memory, pciAddress } };
}

function buildInputs(
  spec: VmiSpec,
  { fixedAddresses: fixed }: Topology,
): DomainDefinition["inputs"] {
  return listInputs(spec).flatMap(({ bus }, index): DomainDefinition["inputs"] => {
    const alias = `ua-input-${String(index)}`;
    if (bus === "usb") return [{ alias, type: "tablet", bus, port: index + 1 }];
    const pciAddress = fixed.get(buildInputDeviceName(index));
    return pciAddress === undefined ? [] : [{ alias, type: "tablet", bus, pciAddress }];
  });
}

function buildRng({ fixedAddresses: fixed }: Topology): Pick<DomainDefinition, "rng"> {
  const pciAddress = fixed.get("rng");
  return pciAddress === undefined ? {} : { rng: { pciAddress } };
}

function buildWatchdog(
  { domain }: VmiSpec,
  { fixedAddresses: fixed }: Topology,
): Pick<DomainDefinition, "watchdog"> {
  const pciAddress = fixed.get("watchdog");
  if (pciAddress === undefined) return {};
  const action = findOneOf(WATCHDOG_ACTIONS, domain.devices?.watchdog?.i6300esb?.action) ?? "reset";
  return { watchdog: { alias: "ua-watchdog", action, pciAddress } };
}

/** Chooses the TPM model. Only a CRB TPM can have persistent state. Source: KubeVirt. */
function buildTpm(spec: VmiSpec): Pick<DomainDefinition, "tpm"> {
  const tpm = findTpm(spec);
  if (tpm === undefined) return {};
  const isPersistent = tpm.persistent === true;
  return { tpm: { model: isPersistent ? "tpm-crb" : "tpm-tis", isPersistent } };
}

function buildConsole(spec: VmiSpec): Pick<DomainDefinition, "console"> {
  if (!hasConsole(spec)) return {};
  const socketPath = launcherPath(names.CONSOLE_SOCKET);
  return { console: { socketPath, logPath: launcherPath(names.CONSOLE_LOG) } };
}

export function buildGuestDevices(
  { spec }: VirtualMachineInstance,
  topology: Topology,
): Pick<DomainDefinition, "agent" | "display" | "inputs" | "rng" | "watchdog" | "tpm" | "console"> {
  return {
    ...buildAgent(topology),
    ...buildDisplay(spec, topology),
    inputs: buildInputs(spec, topology),
    ...buildRng(topology),
    ...buildWatchdog(spec, topology),
    ...buildTpm(spec),
    ...buildConsole(spec),
  };
}

/** Placeholder for a VMI whose topology has problems. Such a VMI never starts. */
const NO_TOPOLOGY: Topology = {
  ports: [],
  bridges: [],
  nicAddresses: new Map(),
  fixedAddresses: new Map(),
};

export interface DomainSettings {
  readonly useEmulation: boolean;
  readonly uuid: string;
  readonly network: NetworkConfig;
}

function buildNics(
  { vmi, topology, network }: DomainParts,
  wired: readonly IfaceFacts[],
): DomainDefinition["nics"] {
  const { hasKubeVirtDefaults } = findLayout(readTopologyVersion(vmi));
  return wired.flatMap((facts) => {
    const pciAddress = topology.nicAddresses.get(facts.name);
    const queues = countQueues(vmi.spec, facts.iface, network);
    const isBootable = hasKubeVirtDefaults && facts.iface?.bootOrder !== undefined;
    const rom = isBootable ? ({ hasBootRom: true } as const) : {};
    return pciAddress === undefined
      ? []
      : [buildNicDefinition(facts, { pciAddress, queues, ...rom })];
  });
}

interface DomainParts {
  readonly vmi: VirtualMachineInstance;
  readonly topology: Topology;
  readonly network: NetworkConfig;
}

/** Builds the domain with the NICs in `wired`. Reserves the PCI addresses of other NICs. The VMI must have no start problems. */
export function planDomain(
  vmi: VirtualMachineInstance,
  wired: readonly IfaceFacts[],
  { useEmulation, uuid, network }: DomainSettings,
): DomainDefinition {
  const { domain } = vmi.spec;
  const plan = planVmiTopology(vmi, network);
  const topology: Topology = plan.ok ? plan.topology : NO_TOPOLOGY;
  const { sharesMemory, hasKubeVirtDefaults } = findLayout(readTopologyVersion(vmi));
  const isForVhostUserNics = isForVhostUser(vmi.spec, network.bindings);
  const ioThreads = planIoThreads(vmi.spec);
  return {
    name: domainNameOf(vmi),
    uuid,
    accelerator: useEmulation ? "qemu" : "kvm",
    machine: buildMachine(domain),
    vcpus: countVcpus(domain),
    memoryMiB: computeMemoryMiB(domain),
    sharesMemory: (sharesMemory && network.sharedMemory) || isForVhostUserNics,
    // QEMU 7.2 without KVM crashes when the guest uses a vhost-user NIC with MSI-X vectors (measured).
    ...(isForVhostUserNics && useEmulation && { hasNoNicVectors: true }),
    cpu: buildCpu(domain, { useEmulation, hasKubeVirtDefaults }),
    firmware: buildFirmware(domain),
    ...buildKernel(domain),
    identity: buildIdentity(domain),
    features: buildFeatures(domain),
    clock: buildClock(domain),
    ioThreads: ioThreads.threadCount,
    controllers: buildControllers(vmi, topology, ioThreads),
    disks: buildDisks(vmi, topology, ioThreads),
    nics: buildNics({ vmi, topology, network }, wired),
    ports: topology.ports,
    bridges: topology.bridges,
    ...buildGuestDevices(vmi, topology),
  };
}
