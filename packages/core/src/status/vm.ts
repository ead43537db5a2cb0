// SPDX-License-Identifier: Apache-2.0
// What virt-controller reports of a VM.
import {
  isAbsent,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VmStatus,
} from "@patchbay/api";
import { TOPOLOGY_VERSION } from "@patchbay/domain";
import { isEqual } from "../equal.ts";
import { findByName, ifacesOf, networksOf, withNics } from "../iface/specs.ts";
import { keptTopology } from "../plan/pci-topology.ts";
import { decideRun, notedStrategy, runFactsOf } from "../plan/run-strategy.ts";
import { startFailureOf } from "../plan/start-failure.ts";
import { synchronizedCondition, vmObstacle, type Obstacle, type VmSituation } from "./obstacle.ts";

const RESTART_REQUIRED = "RestartRequired";

/** What is printed of a VM that does not come up, by reason; else the reason itself. The first three are ours. */
const PRINTED: Readonly<Record<string, string>> = {
  UnsupportedSpec: "ErrorUnsupportedSpec",
  FailedCreate: "ErrorCreateRefused",
  NameTaken: "ErrorNameTaken",
  FailedUpdate: "Starting",
};

function statusOfStart(obstacle: Obstacle | undefined): string {
  return obstacle === undefined ? "Starting" : (PRINTED[obstacle.reason] ?? obstacle.reason);
}

function statusWithoutVmi(vm: VirtualMachine, obstacle: Obstacle | undefined): string {
  const { step } = decideRun(runFactsOf(vm, undefined));
  if (step !== "start") return "Stopped";
  const pauses = obstacle === undefined && vm.status?.startFailure !== undefined;
  return pauses ? "CrashLoopBackOff" : statusOfStart(obstacle);
}

/** For people; KubeVirt's words where it has one. Source: KubeVirt VirtualMachinePrintableStatus. */
function printableStatus({ vm, vmi }: VmSituation, obstacle: Obstacle | undefined): string {
  if (vm.metadata.deletionTimestamp !== undefined) return "Terminating";
  if (vmi === undefined) return statusWithoutVmi(vm, obstacle);
  if (vmi.metadata.deletionTimestamp !== undefined) return "Stopping";
  const phase = vmi.status?.phase;
  if (phase === "Running") return "Running";
  return phase === "Succeeded" || phase === "Failed" ? "Stopped" : statusOfStart(obstacle);
}

/** Paths of the template that differ from the running VMI in something that cannot be changed live. */
export function restartRequiredFields(
  vm: VirtualMachine,
  vmi: VirtualMachineInstance,
): readonly string[] {
  const wanted = vm.spec.template.spec;
  const bare = (spec: typeof wanted): Readonly<Record<string, unknown>> => withNics(spec, [], []);
  const other = [...new Set([...Object.keys(wanted), ...Object.keys(vmi.spec)])]
    .filter((key) => !isEqual(bare(wanted)[key], bare(vmi.spec)[key]))
    .map((key) => `spec.template.spec.${key}`);
  const ifaces = ifacesOf(wanted).flatMap((iface, index) => {
    const actual = findByName(ifacesOf(vmi.spec), iface.name);
    const same = actual === undefined || isEqual({ ...iface, state: "" }, { ...actual, state: "" });
    return same ? [] : [`spec.template.spec.domain.devices.interfaces[${String(index)}]`];
  });
  const networks = networksOf(wanted).flatMap((network, index) => {
    const actual = findByName(networksOf(vmi.spec), network.name);
    const same = actual === undefined || isEqual(network, actual);
    return same ? [] : [`spec.template.spec.networks[${String(index)}]`];
  });
  return [...other, ...networks, ...ifaces].sort();
}

type Conditions = NonNullable<VmStatus["conditions"]>;

type NewCondition = Omit<Conditions[number], "lastTransitionTime">;

function restartRequired(
  vm: VirtualMachine,
  vmi: VirtualMachineInstance | undefined,
): readonly NewCondition[] {
  const fields = vmi === undefined ? [] : restartRequiredFields(vm, vmi);
  if (fields.length === 0) return [];
  const message = `changed fields take effect at the next start: ${fields.join(", ")}`;
  return [{ type: RESTART_REQUIRED, status: "True", reason: "NonLiveFieldsChanged", message }];
}

function conditionsOf(
  { vm, vmi }: VmSituation,
  obstacle: Obstacle | undefined,
  now: string,
): Conditions {
  return [...restartRequired(vm, vmi), ...synchronizedCondition(obstacle)].map((condition) => {
    const previous = vm.status?.conditions?.find(({ type }) => type === condition.type);
    const kept = previous?.status === condition.status ? previous.lastTransitionTime : undefined;
    return { ...condition, lastTransitionTime: kept ?? now };
  });
}

/** What the VMI was told goes before what was known: it was laid out by it. */
function versionOf(vm: VirtualMachine, vmi: VirtualMachineInstance | undefined): number {
  const told = vmi === undefined ? undefined : keptTopology(vmi)?.version;
  return told ?? vm.status?.pcieTopology?.version ?? TOPOLOGY_VERSION;
}

/**
 * Where the devices are: what the VMI reports goes before what was known; an iface that is no longer declared is forgotten.
 * A VMI whose devices are not placed yet says nothing.
 */
function topologyFields(
  vm: VirtualMachine,
  vmi: VirtualMachineInstance | undefined,
): Pick<VmStatus, "pcieTopology"> {
  const before = vm.status?.pcieTopology?.interfaces;
  const interfaces = ifacesOf(vm.spec.template.spec).flatMap((iface) => {
    const reported = findByName(vmi?.status?.interfaces, iface.name)?.pciAddress;
    const pciAddress = reported ?? findByName(before, iface.name)?.pciAddress;
    return isAbsent(iface) || pciAddress === undefined ? [] : [{ name: iface.name, pciAddress }];
  });
  if (before === undefined && interfaces.length === 0) return {};
  return { pcieTopology: { version: versionOf(vm, vmi), interfaces } };
}

/** What is remembered of running; a member that is to go is undefined. */
function runFields(
  vm: VirtualMachine,
  vmi: VirtualMachineInstance | undefined,
  now: string,
): Pick<NewVmStatus, "runStrategy" | "startFailure" | "stateChangeRequests"> {
  const facts = runFactsOf(vm, vmi);
  const { requests } = decideRun(facts);
  return {
    runStrategy: notedStrategy(facts),
    startFailure: startFailureOf(vm, vmi, now),
    stateChangeRequests: requests.length === 0 ? undefined : [...requests],
  };
}

/** virt-controller's part of a VM's status; a member that is undefined is to be taken away. */
export type NewVmStatus = { readonly [K in keyof VmStatus]: VmStatus[K] | undefined };

/** The VM's status; `now` is RFC 3339. */
export function vmStatus(situation: VmSituation, now: string): NewVmStatus {
  const { vm, vmi } = situation;
  const obstacle = vmObstacle(situation);
  return {
    created: vmi !== undefined,
    ready: vmi?.status?.phase === "Running",
    printableStatus: printableStatus(situation, obstacle),
    conditions: conditionsOf(situation, obstacle, now),
    ...topologyFields(vm, vmi),
    ...runFields(vm, vmi, now),
    observedGeneration: vm.metadata.generation ?? 0,
  };
}
