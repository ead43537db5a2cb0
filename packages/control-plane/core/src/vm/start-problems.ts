// SPDX-License-Identifier: Apache-2.0
import type { NetworkConfig, VirtualMachine, VirtualMachineInstance, VmiSpec } from "@patchbay/api";
import { validateHookSidecars } from "@patchbay/api/annotations";
import { cutText, runChecks } from "@patchbay/api/limits";
import {
  validateGuest,
  listGatedCauses,
  listUnsupportedVmFields,
  listUnsupportedVmiFields,
  findMalformedQuantities,
  type FieldProblem,
} from "@patchbay/api/validate";
import { findMachineFamily } from "@patchbay/domain";
import { findBindingProblems } from "../nics/bindings/resolve-binding.ts";
import { buildMachine, computeMemoryMiB } from "./spec/machine.ts";
import { listDisks } from "./spec/disks.ts";
import { ifacesOf } from "../nics/nics.ts";
import { planVmiTopology, toFieldProblems } from "../nics/pcie/topology.ts";

function findMachineProblems({ domain }: VmiSpec, base: string): readonly FieldProblem[] {
  const machine = buildMachine(domain);
  if (findMachineFamily(machine) !== undefined) return [];
  const message = `${machine} is not supported, use q35 or pc`;
  return [{ field: `${base}.domain.machine.type`, message }];
}

/** Reports a guest that has nothing to boot. Such a guest would hang without an error. */
function findBootProblems(spec: VmiSpec, base: string): readonly FieldProblem[] {
  const hasKernel = spec.domain.firmware?.kernelBoot?.container !== undefined;
  const bootsByNetwork = ifacesOf(spec).some(({ bootOrder }) => bootOrder !== undefined);
  if (hasKernel || bootsByNetwork || listDisks(spec).length > 0) return [];
  const message =
    "is empty, and neither firmware.kernelBoot.container nor an interface with a bootOrder is set, so the guest has nothing to boot from";
  return [{ field: `${base}.domain.devices.disks`, message }];
}

/** Reports a watchdog without a model. KubeVirt ignores such a watchdog. */
function findWatchdogProblems({ domain }: VmiSpec, base: string): readonly FieldProblem[] {
  const { watchdog } = domain.devices ?? {};
  if (watchdog === undefined || watchdog.i6300esb !== undefined) return [];
  const message = "is required: there is no other model";
  return [{ field: `${base}.domain.devices.watchdog.i6300esb`, message }];
}

function findMemoryProblems(spec: VmiSpec, base: string): readonly FieldProblem[] {
  const isUnreadable = findMalformedQuantities(spec, base).length > 0;
  if (isUnreadable || computeMemoryMiB(spec.domain) > 0) return [];
  return [{ field: `${base}.domain.memory.guest`, message: "must be 1Mi or more" }];
}

interface SpecAt {
  readonly spec: VmiSpec;
  readonly base: string;
}

type Check = () => readonly FieldProblem[];

function listDomainChecks(
  vmi: VirtualMachineInstance,
  config: NetworkConfig,
  { spec, base }: SpecAt,
): readonly Check[] {
  const findTopologyProblems: Check = () => {
    if (findMachineProblems(spec, base).length > 0) return [];
    const plan = planVmiTopology(vmi, config);
    return plan.ok ? [] : toFieldProblems(plan.problems, { spec, base });
  };
  return [
    () => findMachineProblems(spec, base),
    () => findBootProblems(spec, base),
    () => validateGuest(spec, base),
    () => findMemoryProblems(spec, base),
    () => findWatchdogProblems(spec, base),
    findTopologyProblems,
  ];
}

function listNicChecks({ spec, base }: SpecAt, config: NetworkConfig): readonly Check[] {
  return [
    () => findBindingProblems(spec, base, config.bindings),
    () => listGatedCauses({ after: spec, base }, config.nicGates),
  ];
}

function runAll(checks: readonly Check[], base: string): readonly FieldProblem[] {
  return runChecks(checks, (message) => ({ field: base, message }));
}

export function findVmiStartProblems(
  vmi: VirtualMachineInstance,
  config: NetworkConfig,
): readonly FieldProblem[] {
  const at = { spec: vmi.spec, base: "spec" };
  const checks = [
    ...listDomainChecks(vmi, config, at),
    () => listUnsupportedVmiFields(vmi.spec, "spec").unbuilt,
    () => validateHookSidecars(vmi.metadata, "metadata", config.allowsHooks),
    ...listNicChecks(at, config),
  ];
  return runAll(checks, at.base);
}

/** Returns at most eight reasons why the VM cannot start, with the VM's field paths. `vmi` is the VMI that a start would create. */
export function vmStartProblems(
  vm: VirtualMachine,
  vmi: VirtualMachineInstance,
  config: NetworkConfig,
): readonly FieldProblem[] {
  const { metadata } = vm.spec.template;
  const template = { spec: vm.spec.template.spec, base: "spec.template.spec" };
  const checks = [
    ...listDomainChecks(vmi, config, template),
    () => listUnsupportedVmFields(vm.spec).unbuilt,
    () => validateHookSidecars(metadata, "spec.template.metadata", config.allowsHooks),
    ...listNicChecks(template, config),
  ];
  return runAll(checks, template.base);
}

const PROBLEM_LENGTH_MAX = 512;

export function formatProblems(problems: readonly FieldProblem[]): string {
  return problems
    .map(({ field, message }) => cutText(`${field}: ${message}`, PROBLEM_LENGTH_MAX))
    .join("; ");
}
