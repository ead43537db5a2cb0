// SPDX-License-Identifier: Apache-2.0
// Reasons why a VM or VMI cannot be started, with the paths of their fields.
import type { NetworkConfig, VirtualMachine, VirtualMachineInstance, VmiSpec } from "@patchbay/api";
import { validateHookSidecars } from "@patchbay/api/annotations";
import {
  validateGuest,
  listUnsupportedVmFields,
  listUnsupportedVmiFields,
  findMalformedQuantities,
  type FieldProblem,
} from "@patchbay/api/validate";
import { findMachineFamily } from "@patchbay/domain";
import { findBindingProblems } from "../nics/bindings/resolve-binding.ts";
import { buildMachine, memoryMiBOf } from "./spec/machine.ts";
import { listDisks } from "./spec/disks.ts";
import { ifacesOf } from "../nics/nics.ts";
import { planVmiTopology, topologyProblems } from "../nics/pcie/topology.ts";

function machineProblems({ domain }: VmiSpec, base: string): readonly FieldProblem[] {
  const machine = buildMachine(domain);
  if (findMachineFamily(machine) !== undefined) return [];
  const message = `${machine} is not supported, use q35 or pc`;
  return [{ field: `${base}.domain.machine.type`, message }];
}

/** Reports a guest without anything to boot, which would hang without an error. */
function bootProblems(spec: VmiSpec, base: string): readonly FieldProblem[] {
  const hasKernel = spec.domain.firmware?.kernelBoot?.container !== undefined;
  const bootsByNetwork = ifacesOf(spec).some(({ bootOrder }) => bootOrder !== undefined);
  if (hasKernel || bootsByNetwork || listDisks(spec).length > 0) return [];
  const message =
    "is empty, and neither firmware.kernelBoot.container nor an interface with a bootOrder is set, so the guest has nothing to boot from";
  return [{ field: `${base}.domain.devices.disks`, message }];
}

/** Reports a watchdog without a model, which KubeVirt ignores. Source: KubeVirt. */
function watchdogProblems({ domain }: VmiSpec, base: string): readonly FieldProblem[] {
  const { watchdog } = domain.devices ?? {};
  if (watchdog === undefined || watchdog.i6300esb !== undefined) return [];
  const message = "is required: there is no other model";
  return [{ field: `${base}.domain.devices.watchdog.i6300esb`, message }];
}

function memoryProblems(spec: VmiSpec, base: string): readonly FieldProblem[] {
  const isUnreadable = findMalformedQuantities(spec, base).length > 0;
  if (isUnreadable || memoryMiBOf(spec.domain) > 0) return [];
  return [{ field: `${base}.domain.memory.guest`, message: "must be 1Mi or more" }];
}

interface SpecAt {
  readonly spec: VmiSpec;
  readonly base: string;
}

function domainProblems(
  vmi: VirtualMachineInstance,
  config: NetworkConfig,
  { spec, base }: SpecAt,
): readonly FieldProblem[] {
  const machine = machineProblems(spec, base);
  const plan = machine.length === 0 ? planVmiTopology(vmi, config) : undefined;
  return [
    ...machine,
    ...bootProblems(spec, base),
    ...validateGuest(spec, base),
    ...memoryProblems(spec, base),
    ...watchdogProblems(spec, base),
    ...(plan?.ok === false ? topologyProblems(plan.problems, { spec, base }) : []),
  ];
}

export function vmiStartProblems(
  vmi: VirtualMachineInstance,
  config: NetworkConfig,
): readonly FieldProblem[] {
  const { unbuilt } = listUnsupportedVmiFields(vmi.spec, "spec");
  return [
    ...domainProblems(vmi, config, { spec: vmi.spec, base: "spec" }),
    ...unbuilt,
    ...validateHookSidecars(vmi.metadata, "metadata", config.allowsHooks),
    ...findBindingProblems(vmi.spec, "spec", config.bindings),
  ];
}

/** Returns why the VM cannot start, with the VM's field paths. `vmi` is the VMI that would be created. */
export function vmStartProblems(
  vm: VirtualMachine,
  vmi: VirtualMachineInstance,
  config: NetworkConfig,
): readonly FieldProblem[] {
  const { unbuilt } = listUnsupportedVmFields(vm.spec);
  const { metadata } = vm.spec.template;
  const template = { spec: vm.spec.template.spec, base: "spec.template.spec" };
  return [
    ...domainProblems(vmi, config, template),
    ...unbuilt,
    ...validateHookSidecars(metadata, "spec.template.metadata", config.allowsHooks),
    ...findBindingProblems(template.spec, template.base, config.bindings),
  ];
}

export function formatProblems(problems: readonly FieldProblem[]): string {
  return problems.map(({ field, message }) => `${field}: ${message}`).join("; ");
}
