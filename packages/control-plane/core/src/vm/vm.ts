// SPDX-License-Identifier: Apache-2.0
// virt-controller's actions for one VM: create, change and delete its VMI, and update its template.
import {
  type ClaimSlots,
  apiVersionOf,
  isVmiFinal,
  names,
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  type BindingRegistry,
  type DataVolume,
  type PcieTopology,
  type StateChangeRequest,
  type VirtualMachine,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { printPcieTopology } from "@patchbay/api/annotations";
import { findController } from "@patchbay/api/kubernetes";
import { type FieldProblem } from "@patchbay/api/validate";
import { TOPOLOGY_VERSION } from "@patchbay/domain";
import { withLastAddresses } from "../nics/addresses/retained-addresses.ts";
import { isEqual } from "@patchbay/base";
import {
  needsRandomMac,
  withLastMacs,
  withRetainedMacs,
  type PodNetworkPolicy,
} from "../nics/mac.ts";
import { listDeviceAddresses } from "../nics/pcie/topology.ts";
import { toLabelValue } from "./spec/guest-names.ts";
import type { InstancetypeFacts, RefsPlan } from "../instancetype/facts.ts";
import { withClaimSlots } from "../nics/claimed-nics.ts";
import { ifacesOf, networksOf, withNics, nicsOf, type Nics } from "../nics/nics.ts";
import {
  planNicsChange,
  planOwnNics,
  planTemplateNics,
  type NicsChange,
} from "../nics/spec-plan.ts";
import { decideRun, collectRunFacts } from "./run-strategy.ts";
import { computeStartBackoffMs, computeSuccessDelayMs } from "./start-failure.ts";

/** Action of virt-controller for a VM. Repeating an action is safe. An action fails if its object has changed since it was read. */
export type VmAction =
  | { readonly kind: "setMacAddresses" }
  /** Stores revisions of the current instancetype and preference for the VM. */
  | { readonly kind: "storeRevisions"; readonly plan: RefsPlan }
  | { readonly kind: "createDataVolume"; readonly dataVolume: DataVolume }
  | { readonly kind: "createVmi"; readonly vmi: VirtualMachineInstance }
  | { readonly kind: "deleteVmi"; readonly uid: string }
  | { readonly kind: "patchVmiNics"; readonly change: NicsChange }
  | { readonly kind: "patchTemplateNics"; readonly to: Nics };

export interface VmFacts {
  readonly vm: VirtualMachine;
  readonly vmi: VirtualMachineInstance | undefined;
  readonly now: string;
  readonly startProblems: readonly FieldProblem[];
  readonly hasNameConflict: boolean;
  /** Whether the name conflict is temporary, because the other VMI is being deleted or belongs to a deleted VM. */
  readonly isConflictTemporary?: boolean;
  readonly missingDataVolumes: readonly DataVolume[];
  readonly bindings: BindingRegistry;
  /** Claims for NICs that are plugged later. Unset if the namespace has no template for them. */
  readonly claimSlots?: ClaimSlots;
  /** If unset, the pods' default network is assumed to drop frames with any source MAC other than the MAC that CNI assigned. */
  readonly podNetwork?: PodNetworkPolicy;
  readonly isStaged: boolean;
  readonly waitsForBinding: boolean;
  /** Facts about the instancetype and preference. Unset if the VM has neither an instancetype nor a preference. */
  readonly instancetypes?: InstancetypeFacts;
}

function findExpandedVm({ vm, instancetypes }: VmFacts): VirtualMachine {
  return instancetypes?.expanded ?? vm;
}

function isExpanded({ instancetypes }: VmFacts): boolean {
  return (instancetypes?.missing ?? []).length === 0;
}

function withTopology(vmi: VirtualMachineInstance, topology: PcieTopology): VirtualMachineInstance {
  const annotation = { [names.PCIE_TOPOLOGY_ANNOTATION]: printPcieTopology(topology) };
  const annotations = { ...vmi.metadata.annotations, ...annotation };
  return { ...vmi, metadata: { ...vmi.metadata, annotations } };
}

/**
 * Builds the VMI from the VM's template, without interfaces that have `state: absent`. A MAC of the previous guest is set in the VMI's spec
 * if Patchbay may choose the MAC, or in an annotation if the network must assign the MAC. Other annotations contain the NICs' last IP and
 * PCI addresses, the PCI addresses of other devices, and the version of the PCI layout at the VM's first start.
 */
export function vmiOf(
  vm: VirtualMachine,
  bindings: BindingRegistry,
  podNetwork: PodNetworkPolicy = { passesAnyMac: false },
): VirtualMachineInstance {
  const sources = { bindings, podNetwork };
  const storedTopology = vm.status?.pcieTopology ?? { version: TOPOLOGY_VERSION, interfaces: [] };
  const assigned = withLastMacs(buildVmiFromTemplate(vm, sources), vm, sources);
  const vmi = withTopology(withLastAddresses(assigned, vm), storedTopology);
  const devices = listDeviceAddresses(vmi);
  return devices.length === 0 ? vmi : withTopology(vmi, { ...storedTopology, devices });
}

function buildVmiFromTemplate(
  vm: VirtualMachine,
  sources: { readonly bindings: BindingRegistry; readonly podNetwork: PodNetworkPolicy },
): VirtualMachineInstance {
  const { template } = vm.spec;
  const nics = planTemplateNics(template.spec, undefined);
  const ifaces = withRetainedMacs(vm, nics.ifaces, sources);
  const needsNics = ifacesOf(template.spec).length > 0 || networksOf(template.spec).length > 0;
  return {
    apiVersion: apiVersionOf(VIRTUAL_MACHINE_INSTANCES),
    kind: VIRTUAL_MACHINE_INSTANCES.kind,
    metadata: {
      name: vm.metadata.name,
      namespace: vm.metadata.namespace ?? "",
      labels: {
        ...template.metadata?.labels,
        [names.VM_NAME_LABEL]: toLabelValue(vm.metadata.name),
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

export function isOwnedBy(vmi: VirtualMachineInstance, vm: VirtualMachine): boolean {
  const { uid } = vm.metadata;
  return uid !== undefined && findController(vmi)?.uid === uid;
}

export function findOwnerVm(vmi: VirtualMachineInstance): ReturnType<typeof findController> {
  const owner = findController(vmi);
  return owner?.kind === VIRTUAL_MACHINES.kind ? owner : undefined;
}

/** Returns whether the VMI will not exist for long: it is being deleted, or its owner is an earlier, deleted VM of the same name. */
export function willReleaseName(vmi: VirtualMachineInstance, vm: VirtualMachine): boolean {
  const owner = findOwnerVm(vmi);
  const isOrphan = owner?.name === vm.metadata.name && owner.uid !== vm.metadata.uid;
  return vmi.metadata.deletionTimestamp !== undefined || isOrphan;
}

function lacksMac({ vm, bindings }: VmFacts): boolean {
  const { spec } = vm.spec.template;
  return ifacesOf(spec).some((iface) => needsRandomMac(iface, spec, bindings));
}

function planTemplate(
  vm: VirtualMachine,
  vmi: VirtualMachineInstance | undefined,
): readonly VmAction[] {
  const currentNics = nicsOf(vm.spec.template.spec);
  const plannedNics = planTemplateNics(vm.spec.template.spec, vmi);
  return isEqual(currentNics, plannedNics) ? [] : [{ kind: "patchTemplateNics", to: plannedNics }];
}

/** Plans the VMI's NICs. Plans no plugs if changes are staged, or if the instancetype or preference, which may set models, is missing. */
function planNicsUpdate(facts: VmFacts, vmi: VirtualMachineInstance): NicsChange {
  if (facts.isStaged) return { planned: planOwnNics(vmi), plugs: [] };
  const change = planNicsChange(findExpandedVm(facts).spec.template.spec, vmi, facts.bindings);
  return isExpanded(facts) ? change : { ...change, plugs: [] };
}

function planRunning(facts: VmFacts, vmi: VirtualMachineInstance): readonly VmAction[] {
  const { vm } = facts;
  const change = planNicsUpdate(facts, vmi);
  const changes = change.plugs.length > 0 || !isEqual(nicsOf(vmi.spec), change.planned);
  return [
    ...(changes ? [{ kind: "patchVmiNics", change } as const] : []),
    ...planTemplate(vm, vmi),
  ];
}

function withSlots(
  vmi: VirtualMachineInstance,
  { claimSlots }: Pick<VmFacts, "claimSlots">,
): VirtualMachineInstance {
  return claimSlots === undefined ? vmi : { ...vmi, spec: withClaimSlots(vmi.spec, claimSlots) };
}

/** Starts the VMI paused if the first request is a start with `paused: "true"`. Source: KubeVirt StartRequestDataPausedKey. */
function withStartOptions(
  vmi: VirtualMachineInstance,
  [request]: readonly StateChangeRequest[],
): VirtualMachineInstance {
  return request?.action === "Start" && request.data?.["paused"] === "true"
    ? { ...vmi, spec: { ...vmi.spec, startStrategy: "Paused" } }
    : vmi;
}

function planStopped(facts: VmFacts): readonly VmAction[] {
  const { vm, now, startProblems, hasNameConflict, missingDataVolumes, bindings } = facts;
  const { step, requests } = decideRun(collectRunFacts(vm, undefined));
  const isStartable = startProblems.length === 0 && isExpanded(facts) && !hasNameConflict;
  const mayStart = isStartable && computeStartBackoffMs(vm.status?.startFailure, now) === 0;
  // Creates the VMI only after its DataVolumes exist. Otherwise, the guest could start with an unrelated PVC that has a DataVolume's name.
  const mustStart = step === "start" && mayStart && missingDataVolumes.length === 0;
  return [
    ...planTemplate(vm, undefined),
    ...missingDataVolumes.map((dataVolume) => ({ kind: "createDataVolume", dataVolume }) as const),
    ...(mustStart
      ? [
          {
            kind: "createVmi",
            vmi: withStartOptions(
              withSlots(vmiOf(findExpandedVm(facts), bindings, facts.podNetwork), facts),
              requests,
            ),
          } as const,
        ]
      : []),
  ];
}

function planStarted(facts: VmFacts, vmi: VirtualMachineInstance): readonly VmAction[] {
  if (vmi.metadata.deletionTimestamp !== undefined) return [];
  if (decideRun(collectRunFacts(facts.vm, vmi)).step === "stop") {
    return [{ kind: "deleteVmi", uid: vmi.metadata.uid ?? "" }];
  }
  return isVmiFinal(vmi) ? [] : planRunning(facts, vmi);
}

/** Plans the actions for a VM. A deleted VM needs no action, because the garbage collector deletes its VMI. */
export function planVm(facts: VmFacts): readonly VmAction[] {
  const { vm, vmi } = facts;
  if (vm.metadata.deletionTimestamp !== undefined) return [];
  const refs = facts.instancetypes?.refs;
  const refActions = refs === undefined ? [] : [{ kind: "storeRevisions", plan: refs } as const];
  if (lacksMac(facts)) return [...refActions, { kind: "setMacAddresses" }];
  if (vmi !== undefined) return [...refActions, ...planStarted(facts, vmi)];
  // The VMI is created only after the revisions of the instancetype and preference are stored.
  return refs === undefined ? planStopped(facts) : refActions;
}

/** Returns the delay in milliseconds after which the VM must be reconciled without an event; undefined if it can wait for an event. */
export function nextReconcileMs({ vm, vmi, now }: VmFacts): number | undefined {
  if (vmi !== undefined) return computeSuccessDelayMs(vm, vmi, now);
  const { step } = decideRun(collectRunFacts(vm, undefined));
  const backoffMs = computeStartBackoffMs(vm.status?.startFailure, now);
  return step === "start" && backoffMs > 0 ? backoffMs : undefined;
}
