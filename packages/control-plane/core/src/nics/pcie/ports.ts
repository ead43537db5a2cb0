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
import { findNicModel, findMachineFamily } from "@patchbay/domain";
import { canBind } from "../bindings/resolve-binding.ts";
import {
  modelNeedsIoPorts,
  noFreePortMessage,
  type ReasonMessage,
} from "../../reasons/messages.ts";
import { buildMachine } from "../../vm/spec/machine.ts";
import { findByName, ifacesOf, networksOf } from "../nics.ts";

interface PortReservations {
  readonly total: number;
  readonly free: number;
  /** Interfaces that wait for a device. Those with an attachment in the pod come first. */
  readonly reserved: readonly string[];
}

export type PortProblem = ReasonMessage<"NoFreePciePort" | "ModelNeedsIoPorts">;

function hasDevice(vmi: VirtualMachineInstance, iface: Iface): boolean {
  return findByName(vmi.status?.interfaces, iface.name)?.pciAddress !== undefined;
}

function listWithoutDevice(
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

export function reservePorts(
  vmi: VirtualMachineInstance,
  spec: VmiSpec,
  registry: BindingRegistry,
): PortReservations | undefined {
  const ports = vmi.status?.pciePorts;
  if (ports === undefined) return undefined;
  const waiting = listWithoutDevice(vmi, spec, registry).filter(
    (iface) => ioPortProblem(vmi, iface) === undefined,
  );
  const hasAttachment = ({ name }: Iface): boolean =>
    findByName(vmi.status?.attachments, name) !== undefined;
  const reserved = [
    ...waiting.filter(hasAttachment),
    ...waiting.filter((iface) => !hasAttachment(iface)),
  ];
  return { ...ports, reserved: reserved.map(({ name }) => name) };
}

export function ifacesWithoutPort(
  vmi: VirtualMachineInstance,
  spec: VmiSpec,
  registry: BindingRegistry,
): ReadonlyMap<string, PortProblem> {
  const ports = reservePorts(vmi, spec, registry);
  if (ports === undefined) return new Map();
  const unfit = listWithoutDevice(vmi, spec, registry).flatMap(
    (iface): readonly [string, PortProblem][] => {
      const problem = ioPortProblem(vmi, iface);
      return problem === undefined ? [] : [[iface.name, problem]];
    },
  );
  const excess = ports.reserved.slice(ports.free);
  const problem = noFreePortMessage(vmi);
  return new Map([...unfit, ...excess.map((name): [string, PortProblem] => [name, problem])]);
}

/** Returns undefined if the model can be plugged or the VM does not run. */
export function ioPortProblem(
  vmi: VirtualMachineInstance,
  iface: Iface | undefined,
): ReasonMessage<"ModelNeedsIoPorts"> | undefined {
  const model = iface?.model ?? "";
  const hasSlots = findMachineFamily(buildMachine(vmi.spec.domain)) === "pc";
  const fits = hasSlots || findNicModel(model)?.needsIoPorts !== true;
  return fits || vmi.status?.pciePorts === undefined ? undefined : modelNeedsIoPorts(model);
}
