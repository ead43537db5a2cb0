// SPDX-License-Identifier: Apache-2.0
// Which ifaces of a running VM there is no port for: told before anything is made for them.
import {
  isAbsent,
  isSecondary,
  unbuiltPartOf,
  type Iface,
  type VirtualMachineInstance,
  type VmiSpec,
} from "@patchbay/api";
import { findNicModel, machineFamilyOf } from "@patchbay/domain";
import { isOnRootComplex, machineOf } from "../spec/machine.ts";
import { findByName, ifacesOf, networksOf } from "../spec/nics.ts";

/** Ports of a running VM, and what of them is promised. */
export interface PortBook {
  readonly total: number;
  readonly free: number;
  /** Ifaces that are being plugged and have no device yet, those first for which the pod has something. */
  readonly promised: readonly string[];
}

/** Why an iface of a running VM waits, for people too: nothing is made for it before. */
export interface NoPort {
  readonly reason: "NoFreePciePort" | "ModelNeedsIoPorts";
  readonly message: string;
}

function hasDevice(vmi: VirtualMachineInstance, iface: Iface): boolean {
  return findByName(vmi.status?.interfaces, iface.name)?.pciAddress !== undefined;
}

/** Secondary ifaces that are to have a device and have none yet. */
function withoutDevice(vmi: VirtualMachineInstance, spec: VmiSpec): readonly Iface[] {
  return ifacesOf(spec).filter(
    (iface) =>
      !isAbsent(iface) &&
      unbuiltPartOf(iface) === undefined &&
      isSecondary(iface, networksOf(spec)) &&
      !hasDevice(vmi, iface),
  );
}

/** The book of a VMI for a specification that it is to have; undefined while the VMI does not run. */
export function bookPorts(vmi: VirtualMachineInstance, spec: VmiSpec): PortBook | undefined {
  const ports = vmi.status?.pciePorts;
  if (ports === undefined) return undefined;
  const waiting = withoutDevice(vmi, spec).filter(
    (iface) => sayNoIoPorts(vmi, iface) === undefined,
  );
  const begun = ({ name }: Iface): boolean =>
    findByName(vmi.status?.attachments, name) !== undefined;
  const promised = [...waiting.filter(begun), ...waiting.filter((iface) => !begun(iface))];
  return { ...ports, promised: promised.map(({ name }) => name) };
}

/** Ifaces of the specification for which there is no port, by name; empty while the VMI does not run. */
export function ifacesWithoutPort(
  vmi: VirtualMachineInstance,
  spec: VmiSpec,
): ReadonlyMap<string, NoPort> {
  const book = bookPorts(vmi, spec);
  if (book === undefined) return new Map();
  const unfit = withoutDevice(vmi, spec).flatMap((iface): readonly [string, NoPort][] => {
    const message = sayNoIoPorts(vmi, iface);
    return message === undefined ? [] : [[iface.name, { reason: "ModelNeedsIoPorts", message }]];
  });
  const late = book.promised.slice(book.free);
  const message = late.length === 0 ? "" : sayNoPort(vmi);
  return new Map([
    ...unfit,
    ...late.map((name): [string, NoPort] => [name, { reason: "NoFreePciePort", message }]),
  ]);
}

/** What is to be done for a port, with the name of the knob. */
function wayOut(vmi: VirtualMachineInstance): string {
  if (isOnRootComplex(vmi)) {
    return "its devices are on the root complex (annotation kubevirt.io/placePCIDevicesOnRootComplex), where nothing can be plugged; restart the VM without it";
  }
  if (machineFamilyOf(machineOf(vmi.spec.domain)) === "pc") {
    return "unplug an interface; the bus of machine type pc has no more slots, q35 can have more ports";
  }
  return "unplug an interface, or restart the VM with more spec.domain.devices.pcieRootPorts, or with more vCPUs where the guest's interrupt vectors are used up";
}

/** Why a model finds no place in a running VM, for people. */
export function sayModelNeedsIoPorts(model: string): string {
  return `model ${model} needs I/O ports, which the ports for hot-plug do not have; use virtio, or add the interface while the VM is stopped`;
}

/** Why a model cannot be plugged into a running VM, however many ports are free; undefined: it can, or the VM does not run. */
export function sayNoIoPorts(
  vmi: VirtualMachineInstance,
  iface: Iface | undefined,
): string | undefined {
  const model = iface?.model ?? "";
  const hasSlots = machineFamilyOf(machineOf(vmi.spec.domain)) === "pc";
  const fits = hasSlots || findNicModel(model)?.needsIoPorts !== true;
  return fits || vmi.status?.pciePorts === undefined ? undefined : sayModelNeedsIoPorts(model);
}

/** Why there is no port, for people: both numbers and the way out. */
export function sayNoPort(vmi: VirtualMachineInstance): string {
  const { total = 0, free = 0 } = vmi.status?.pciePorts ?? {};
  return `${String(free)} of ${String(total)} PCIe ports of the VM are free; ${wayOut(vmi)}`;
}
