// SPDX-License-Identifier: Apache-2.0
// Which ifaces of a running VM there is no port for: told before anything is made for them.
import {
  isAbsent,
  isSecondary,
  type BindingRegistry,
  type Iface,
  type VirtualMachineInstance,
  type VmiSpec,
} from "@patchbay/api";
import { findNicModel, machineFamilyOf } from "@patchbay/domain";
import { canBind } from "../bindings/resolve-binding.ts";
import { modelNeedsIoPorts, noFreePort, type Told } from "../reasons/words.ts";
import { machineOf } from "../spec/machine.ts";
import { findByName, ifacesOf, networksOf } from "../spec/nics.ts";

/** Ports of a running VM, and what of them is promised. */
interface PortBook {
  readonly total: number;
  readonly free: number;
  /** Ifaces that are being plugged and have no device yet, those first for which the pod has something. */
  readonly promised: readonly string[];
}

/** Why nothing is made for an iface of a running VM. */
export type NoPort = Told<"NoFreePciePort" | "ModelNeedsIoPorts">;

function hasDevice(vmi: VirtualMachineInstance, iface: Iface): boolean {
  return findByName(vmi.status?.interfaces, iface.name)?.pciAddress !== undefined;
}

/** Secondary ifaces that are to have a device and have none yet. */
function withoutDevice(
  vmi: VirtualMachineInstance,
  spec: VmiSpec,
  registry: BindingRegistry,
): readonly Iface[] {
  return ifacesOf(spec).filter(
    (iface) =>
      !isAbsent(iface) &&
      canBind(spec, iface, registry) &&
      isSecondary(iface, networksOf(spec)) &&
      !hasDevice(vmi, iface),
  );
}

/** The book of a VMI for a specification that it is to have; undefined while the VMI does not run. */
export function bookPorts(
  vmi: VirtualMachineInstance,
  spec: VmiSpec,
  registry: BindingRegistry,
): PortBook | undefined {
  const ports = vmi.status?.pciePorts;
  if (ports === undefined) return undefined;
  const waiting = withoutDevice(vmi, spec, registry).filter(
    (iface) => lacksIoPorts(vmi, iface) === undefined,
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
  registry: BindingRegistry,
): ReadonlyMap<string, NoPort> {
  const book = bookPorts(vmi, spec, registry);
  if (book === undefined) return new Map();
  const unfit = withoutDevice(vmi, spec, registry).flatMap((iface): readonly [string, NoPort][] => {
    const told = lacksIoPorts(vmi, iface);
    return told === undefined ? [] : [[iface.name, told]];
  });
  const late = book.promised.slice(book.free);
  const told = noFreePort(vmi);
  return new Map([...unfit, ...late.map((name): [string, NoPort] => [name, told])]);
}

/** Why a model cannot be plugged into a running VM, however many ports are free; undefined: it can, or the VM does not run. */
export function lacksIoPorts(
  vmi: VirtualMachineInstance,
  iface: Iface | undefined,
): Told<"ModelNeedsIoPorts"> | undefined {
  const model = iface?.model ?? "";
  const hasSlots = machineFamilyOf(machineOf(vmi.spec.domain)) === "pc";
  const fits = hasSlots || findNicModel(model)?.needsIoPorts !== true;
  return fits || vmi.status?.pciePorts === undefined ? undefined : modelNeedsIoPorts(model);
}
