// SPDX-License-Identifier: Apache-2.0
// What virt-controller does next for one VM: make, end and change its VMI, and tidy its template.
import {
  apiVersionOf,
  controllerOf,
  isAbsent,
  isSecondary,
  isVmiFinal,
  names,
  printPcieTopology,
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  type BindingRegistry,
  type DataVolume,
  type FieldProblem,
  type PcieTopology,
  type StateChangeRequest,
  type VirtualMachine,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { TOPOLOGY_VERSION } from "@patchbay/domain";
import { withToldAddresses } from "../../addresses/kept-addresses.ts";
import { isEqual } from "../../equal.ts";
import { withKeptMacs } from "../../iface/kept-macs.ts";
import { printedDevicesOf } from "../../pcie/topology.ts";
import { labelValueOf } from "../../spec/guest-names.ts";
import type { PartsFacts } from "../../instancetype/facts.ts";
import type { RefsPlan } from "../../instancetype/plan-refs.ts";
import { ifacesOf, networksOf, withNics, nicsOf, type Nics } from "../../spec/nics.ts";
import { planNicsChange, planOwnNics, planTemplateNics, type NicsChange } from "./nics.ts";
import { decideRun, runFactsOf } from "./run-strategy.ts";
import { startPauseMs, wellInMs } from "./start-failure.ts";

/** One step for a VM; each may be repeated, and none is forced on what somebody else has written. */
export type VmAction =
  /** Secondary ifaces of the template need a MAC before they are used. */
  | { readonly kind: "setMacAddresses" }
  /** What its instancetype and preference say now is kept for it. */
  | { readonly kind: "keepParts"; readonly plan: RefsPlan }
  | { readonly kind: "createDataVolume"; readonly dataVolume: DataVolume }
  | { readonly kind: "createVmi"; readonly vmi: VirtualMachineInstance }
  | { readonly kind: "deleteVmi"; readonly uid: string }
  | { readonly kind: "patchVmiNics"; readonly change: NicsChange }
  | { readonly kind: "patchTemplateNics"; readonly to: Nics };

/** A VM, its VMI, and what stands in the way of its start. */
export interface VmFacts {
  readonly vm: VirtualMachine;
  /** The VM's own. */
  readonly vmi: VirtualMachineInstance | undefined;
  /** RFC 3339. */
  readonly now: string;
  /** Why it cannot be started. */
  readonly startProblems: readonly FieldProblem[];
  /** A VMI of the VM's name is there that is not the VM's. */
  readonly isNameTaken: boolean;
  /** That VMI is being deleted, or its VM was. */
  readonly isTakerLeaving?: boolean;
  /** Of the VM's templates: those that are not there. */
  readonly missingDataVolumes: readonly DataVolume[];
  /** What the cluster has registered. */
  readonly bindings: BindingRegistry;
  /** Changes of NICs wait for the next start. */
  readonly isStaged: boolean;
  /** A claim of the VMI has no volume yet. */
  readonly waitsForBinding: boolean;
  /** Absent: the VM is what it says itself. */
  readonly parts?: PartsFacts;
}

/** The VM with what it takes from elsewhere: what its VMI is to be. */
function wantedOf({ vm, parts }: VmFacts): VirtualMachine {
  return parts?.expanded ?? vm;
}

/** Whether it is known what the VM takes from elsewhere. */
function isWhole({ parts }: VmFacts): boolean {
  return (parts?.missing ?? []).length === 0;
}

/** The VMI, told where its devices are. */
function toldOf(vmi: VirtualMachineInstance, topology: PcieTopology): VirtualMachineInstance {
  const annotation = { [names.PCIE_TOPOLOGY_ANNOTATION]: printPcieTopology(topology) };
  const annotations = { ...vmi.metadata.annotations, ...annotation };
  return { ...vmi, metadata: { ...vmi.metadata, annotations } };
}

/**
 * The VMI that a VM starts: its template without what is absent, with the MACs that were kept. It is told which addresses
 * its NICs had, and where they were, at the first start the rules by which they are to be laid out, and where its other devices are, which are not
 * plugged while it runs.
 */
export function vmiOf(vm: VirtualMachine, bindings: BindingRegistry): VirtualMachineInstance {
  const before = vm.status?.pcieTopology ?? { version: TOPOLOGY_VERSION, interfaces: [] };
  const vmi = toldOf(withToldAddresses(bareVmiOf(vm, bindings), vm), before);
  const devices = printedDevicesOf(vmi);
  return devices.length === 0 ? vmi : toldOf(vmi, { ...before, devices });
}

function bareVmiOf(vm: VirtualMachine, bindings: BindingRegistry): VirtualMachineInstance {
  const { template } = vm.spec;
  const nics = planTemplateNics(template.spec, undefined);
  const ifaces = withKeptMacs(vm, nics.ifaces, bindings);
  const needsNics = ifacesOf(template.spec).length > 0 || networksOf(template.spec).length > 0;
  return {
    apiVersion: apiVersionOf(VIRTUAL_MACHINE_INSTANCES),
    kind: VIRTUAL_MACHINE_INSTANCES.kind,
    metadata: {
      name: vm.metadata.name,
      namespace: vm.metadata.namespace ?? "",
      labels: {
        ...template.metadata?.labels,
        [names.VM_NAME_LABEL]: labelValueOf(vm.metadata.name),
      },
      annotations: { ...template.metadata?.annotations },
      finalizers: [names.VMI_FINALIZER],
      ownerReferences: [
        {
          apiVersion: vm.apiVersion,
          kind: vm.kind,
          name: vm.metadata.name,
          uid: vm.metadata.uid ?? "",
          controller: true,
          blockOwnerDeletion: true,
        },
      ],
    },
    spec: needsNics ? withNics(template.spec, nics.networks, ifaces) : template.spec,
  };
}

/** Whether the VMI was made by this VM; another of the same name is left alone. */
export function isOwnedBy(vmi: VirtualMachineInstance, vm: VirtualMachine): boolean {
  const { uid } = vm.metadata;
  return uid !== undefined && controllerOf(vmi)?.uid === uid;
}

/** The VM that a VMI says it was made by; undefined for one without a VM. */
export function ownerVmOf(vmi: VirtualMachineInstance): ReturnType<typeof controllerOf> {
  const owner = controllerOf(vmi);
  return owner?.kind === VIRTUAL_MACHINES.kind ? owner : undefined;
}

/** Whether a VMI is being deleted, or belonged to an earlier VM of this name, so that the garbage collector deletes it. */
export function isLeavingName(vmi: VirtualMachineInstance, vm: VirtualMachine): boolean {
  const owner = ownerVmOf(vmi);
  const isOrphan = owner?.name === vm.metadata.name && owner.uid !== vm.metadata.uid;
  return vmi.metadata.deletionTimestamp !== undefined || isOrphan;
}

function lacksMac(vm: VirtualMachine): boolean {
  const { spec } = vm.spec.template;
  return ifacesOf(spec).some(
    (iface) =>
      (iface.macAddress ?? "") === "" && !isAbsent(iface) && isSecondary(iface, networksOf(spec)),
  );
}

function planTemplate(
  vm: VirtualMachine,
  vmi: VirtualMachineInstance | undefined,
): readonly VmAction[] {
  const from = nicsOf(vm.spec.template.spec);
  const to = planTemplateNics(vm.spec.template.spec, vmi);
  return isEqual(from, to) ? [] : [{ kind: "patchTemplateNics", to }];
}

/** A NIC that comes before its preference is known would be another one. */
function nicsChangeOf(facts: VmFacts, vmi: VirtualMachineInstance): NicsChange {
  if (facts.isStaged) return { kept: planOwnNics(vmi), plugs: [] };
  const change = planNicsChange(wantedOf(facts).spec.template.spec, vmi, facts.bindings);
  return isWhole(facts) ? change : { ...change, plugs: [] };
}

function planRunning(facts: VmFacts, vmi: VirtualMachineInstance): readonly VmAction[] {
  const { vm } = facts;
  const change = nicsChangeOf(facts, vmi);
  const changes = change.plugs.length > 0 || !isEqual(nicsOf(vmi.spec), change.kept);
  return [
    ...(changes ? [{ kind: "patchVmiNics", change } as const] : []),
    ...planTemplate(vm, vmi),
  ];
}

/** Source: KubeVirt StartRequestDataPausedKey. */
function asAsked(
  vmi: VirtualMachineInstance,
  [request]: readonly StateChangeRequest[],
): VirtualMachineInstance {
  return request?.action === "Start" && request.data?.["paused"] === "true"
    ? { ...vmi, spec: { ...vmi.spec, startStrategy: "Paused" } }
    : vmi;
}

function planStopped(facts: VmFacts): readonly VmAction[] {
  const { vm, now, startProblems, isNameTaken, missingDataVolumes, bindings } = facts;
  const { step, requests } = decideRun(runFactsOf(vm, undefined));
  const isPossible = startProblems.length === 0 && isWhole(facts) && !isNameTaken;
  const mayStart = isPossible && startPauseMs(vm.status?.startFailure, now) === 0;
  // Another claim of that name would be taken for the DataVolume's.
  const starts = step === "start" && mayStart && missingDataVolumes.length === 0;
  return [
    ...planTemplate(vm, undefined),
    ...missingDataVolumes.map((dataVolume) => ({ kind: "createDataVolume", dataVolume }) as const),
    ...(starts
      ? [{ kind: "createVmi", vmi: asAsked(vmiOf(wantedOf(facts), bindings), requests) } as const]
      : []),
  ];
}

function planStarted(facts: VmFacts, vmi: VirtualMachineInstance): readonly VmAction[] {
  if (vmi.metadata.deletionTimestamp !== undefined) return [];
  if (decideRun(runFactsOf(facts.vm, vmi)).step === "stop") {
    return [{ kind: "deleteVmi", uid: vmi.metadata.uid ?? "" }];
  }
  return isVmiFinal(vmi) ? [] : planRunning(facts, vmi);
}

/** The next steps for a VM, in order. A VM that is being deleted takes its VMI along by its owner reference. */
export function planVm(facts: VmFacts): readonly VmAction[] {
  const { vm, vmi } = facts;
  if (vm.metadata.deletionTimestamp !== undefined) return [];
  const refs = facts.parts?.refs;
  const keep = refs === undefined ? [] : [{ kind: "keepParts", plan: refs } as const];
  if (lacksMac(vm)) return [...keep, { kind: "setMacAddresses" }];
  if (vmi !== undefined) return [...keep, ...planStarted(facts, vmi)];
  // What it is made of is remembered before it is made.
  return refs === undefined ? planStopped(facts) : keep;
}

/** When to look again although nothing changes, milliseconds; undefined: not at all. */
export function nextLookMs({ vm, vmi, now }: VmFacts): number | undefined {
  if (vmi !== undefined) return wellInMs(vm, vmi, now);
  const { step } = decideRun(runFactsOf(vm, undefined));
  const pauseMs = startPauseMs(vm.status?.startFailure, now);
  return step === "start" && pauseMs > 0 ? pauseMs : undefined;
}
