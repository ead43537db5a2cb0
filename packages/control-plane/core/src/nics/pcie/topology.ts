// SPDX-License-Identifier: Apache-2.0
// Plans the PCI addresses of a VMI's devices and the number of spare ports.
import {
  isAbsent,
  networkConfigOf,
  type Iface,
  type NetworkConfig,
  type VirtualMachineInstance,
  type VmiSpec,
  type PcieTopology,
} from "@patchbay/api";
import { validateKubeVirtPci } from "@patchbay/api/annotations";
import type { Cause } from "@patchbay/api/kubernetes";
import type { FieldProblem } from "@patchbay/api/validate";
import { isPciAddress } from "@patchbay/api/values";
import {
  findNicModel,
  findMachineFamily,
  planTopology,
  printPciAddress,
  type UnplacedNic,
  type PciAddress,
  type PlannedTopology,
  type TopologyProblem,
} from "@patchbay/domain";
import { ifacesOf } from "../nics.ts";
import { listDisks } from "../../vm/spec/disks.ts";
import { isOnRootComplex, buildMachine, countVcpus } from "../../vm/spec/machine.ts";
import {
  parseRequestedPciAddress,
  buildDiskDeviceName,
  listDevicesToPlace,
  planAnnotatedKubeVirtLayout,
  readRecordedNicAddresses,
  readTopologyVersion,
} from "./devices.ts";

const DEFAULT_MODEL = "virtio";

export function findModelName(iface: Iface | undefined): string {
  const model = iface?.model ?? "";
  return model === "" ? DEFAULT_MODEL : model;
}

/** Returns a NIC's number of queue pairs, at most one for each vCPU. Source: KubeVirt networkInterfaceMultiqueue, enhancement 422 */
export function countQueues(
  spec: VmiSpec,
  iface: Iface | undefined,
  config: NetworkConfig,
): number {
  const { networkInterfaceMultiqueue, maxNetworkInterfaceQueues = Infinity } =
    spec.domain.devices ?? {};
  const isSupported = findNicModel(findModelName(iface))?.isMultiQueue === true;
  if (!isSupported) return 1;
  const vcpus = countVcpus(spec.domain);
  const requested = iface?.queues ?? (networkInterfaceMultiqueue === true ? vcpus : 1);
  return Math.min(requested, vcpus, maxNetworkInterfaceQueues, config.maxQueues);
}

export function readRequestedAddress(iface: Iface | undefined): PciAddress | undefined {
  return parseRequestedPciAddress(iface?.pciAddress);
}

function listNicsToPlace(
  vmi: VirtualMachineInstance,
  config: NetworkConfig,
): readonly UnplacedNic[] {
  const recordedAddresses = readRecordedNicAddresses(vmi);
  return ifacesOf(vmi.spec)
    .filter((iface) => !isAbsent(iface))
    .map((iface) => {
      const requested = readRequestedAddress(iface);
      const recorded = recordedAddresses.get(iface.name);
      return {
        name: iface.name,
        model: findModelName(iface),
        queues: countQueues(vmi.spec, iface, config),
        ...(requested === undefined ? {} : { requested }),
        ...(recorded === undefined ? {} : { previous: recorded }),
      };
    });
}

export function planVmiTopology(
  vmi: VirtualMachineInstance,
  config: NetworkConfig,
): PlannedTopology {
  const { domain } = vmi.spec;
  const requestedReserve = domain.devices?.pcieRootPorts;
  const portCount =
    requestedReserve === undefined ? planAnnotatedKubeVirtLayout(vmi)?.portCount : undefined;
  return planTopology({
    version: readTopologyVersion(vmi),
    family: findMachineFamily(buildMachine(domain)) ?? "q35",
    vcpus: countVcpus(domain),
    reserve: requestedReserve ?? config.pcieRootPorts,
    ...(portCount !== undefined && { portCount }),
    devices: listDevicesToPlace(vmi),
    nics: listNicsToPlace(vmi, config),
    isOnRootComplex: isOnRootComplex(vmi),
  });
}

function findDiskField(spec: VmiSpec, device: TopologyProblem["device"]): string {
  const disk = listDisks(spec).find((each) => buildDiskDeviceName(each) === device);
  if (disk === undefined) return "domain.devices";
  const field = disk.pciAddress === undefined ? "" : ".disk.pciAddress";
  return `domain.devices.disks[${String(disk.index)}]${field}`;
}

function findField(spec: VmiSpec, problem: TopologyProblem): string {
  if (problem.nic === undefined) return findDiskField(spec, problem.device);
  const index = ifacesOf(spec).findIndex(({ name }) => name === problem.nic);
  if (index === -1) return "domain.devices";
  const field = readRequestedAddress(ifacesOf(spec)[index]) === undefined ? "" : ".pciAddress";
  return `domain.devices.interfaces[${String(index)}]${field}`;
}

export function toFieldProblems(
  problems: readonly TopologyProblem[],
  { spec, base }: { readonly spec: VmiSpec; readonly base: string },
): readonly FieldProblem[] {
  return problems.map((problem) => ({
    field: `${base}.${findField(spec, problem)}`,
    message: problem.message,
  }));
}

interface Requested {
  readonly vmi: VirtualMachineInstance;
  readonly base: string;
}

/** Reports addresses that are valid in KubeVirt's syntax, but whose PCI domain or slot exists in no machine type. */
function findUnknownAddresses({ vmi: { spec }, base }: Requested): readonly FieldProblem[] {
  const interfaces = `${base}.domain.devices.interfaces`;
  const disks = `${base}.domain.devices.disks`;
  const requests = [
    ...ifacesOf(spec).flatMap((iface, index) =>
      isAbsent(iface)
        ? []
        : [{ field: `${interfaces}[${String(index)}].pciAddress`, text: iface.pciAddress }],
    ),
    ...listDisks(spec).map(({ index, pciAddress: text }) => ({
      field: `${disks}[${String(index)}].disk.pciAddress`,
      text,
    })),
  ];
  return requests.flatMap(({ field, text = "" }) =>
    isPciAddress(text) && parseRequestedPciAddress(text) === undefined
      ? [{ field, message: `${text}: only PCI domain 0000 and slots 00 to 1f exist` }]
      : [],
  );
}

function findAddressProblems(
  { vmi, base }: Requested,
  config: NetworkConfig,
): readonly FieldProblem[] {
  if (findMachineFamily(buildMachine(vmi.spec.domain)) === undefined) return [];
  const plan = planVmiTopology(vmi, config);
  const problems = plan.ok ? [] : toFieldProblems(plan.problems, { spec: vmi.spec, base });
  return [
    ...findUnknownAddresses({ vmi, base }),
    ...problems.filter(({ field }) => field.endsWith(".pciAddress")),
  ];
}

/** Reports invalid annotations of KubeVirt's PCI layout. Omits problems that the old VMI already had. */
function listAnnotationCauses(
  { vmi, base }: Requested,
  old: VirtualMachineInstance | undefined,
): readonly Cause[] {
  const metadataPath = base.replace(/spec$/, "metadata");
  const known = validateKubeVirtPci(old?.metadata, metadataPath).map(({ message }) => message);
  return validateKubeVirtPci(vmi.metadata, metadataPath).filter(
    ({ message }) => !known.includes(message),
  );
}

/**
 * Reports requested PCI addresses that cannot be assigned, and invalid PCI layout annotations. Omits problems that the old VMI
 * already had. `base` is the path of the specification.
 */
export function findPciAddressCauses(
  now: Requested,
  old: VirtualMachineInstance | undefined,
  config: NetworkConfig,
): readonly Cause[] {
  const problems = findAddressProblems(now, config);
  const knownMessages =
    problems.length === 0 || old === undefined
      ? []
      : findAddressProblems({ vmi: old, base: now.base }, config).map(({ message }) => message);
  return [
    ...listAnnotationCauses(now, old),
    ...problems
      .filter(({ message }) => !knownMessages.includes(message))
      .map((problem) => ({ reason: "FieldValueInvalid", ...problem }) as const),
  ];
}

/** Plans the addresses of non-NIC devices with the default cluster configuration. Returns an empty list if the devices do not fit. */
export function listDeviceAddresses(
  vmi: VirtualMachineInstance,
): NonNullable<PcieTopology["devices"]> {
  const plan = planVmiTopology(vmi, networkConfigOf(undefined));
  if (!plan.ok) return [];
  return listDevicesToPlace(vmi).flatMap(({ name }) => {
    const address = plan.topology.fixedAddresses.get(name);
    return address === undefined ? [] : [{ name, pciAddress: printPciAddress(address) }];
  });
}
