// SPDX-License-Identifier: Apache-2.0
// Interfaces of a running VM that find no free PCIe port, known before links are created.
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

interface PortBook {
  readonly total: number;
  readonly free: number;
  /** Interfaces that wait for a device. Those with an attachment in the pod come first. */
  readonly promised: readonly string[];
}

export type NoPort = Told<"NoFreePciePort" | "ModelNeedsIoPorts">;

function hasDevice(vmi: VirtualMachineInstance, iface: Iface): boolean {
  return findByName(vmi.status?.interfaces, iface.name)?.pciAddress !== undefined;
}

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

/** Returns undefined if the model can be plugged or the VM does not run. */
export function lacksIoPorts(
  vmi: VirtualMachineInstance,
  iface: Iface | undefined,
): Told<"ModelNeedsIoPorts"> | undefined {
  const model = iface?.model ?? "";
  const hasSlots = machineFamilyOf(machineOf(vmi.spec.domain)) === "pc";
  const fits = hasSlots || findNicModel(model)?.needsIoPorts !== true;
  return fits || vmi.status?.pciePorts === undefined ? undefined : modelNeedsIoPorts(model);
}
