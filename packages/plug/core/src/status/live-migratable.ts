// SPDX-License-Identifier: Apache-2.0
// Could the guest move to another node while it runs? Source: KubeVirt pkg/virt-handler, whose reasons and words these are.
import {
  isDefaultNetwork,
  names,
  type BindingRegistry,
  type Iface,
  type PersistentVolumeClaim,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { bindingOf } from "../bindings/resolve-binding.ts";
import { claimNameOf, disksOf, type GuestDisk } from "../spec/disks.ts";
import { findByName, ifacesOf, networksOf } from "../spec/nics.ts";
import type { NewCondition } from "./conditions.ts";

/** Source: KubeVirt VirtualMachineInstanceIsMigratable. */
export const LIVE_MIGRATABLE = "LiveMigratable";

/** What is asked of for it. */
interface MigrationFacts {
  readonly vmi: VirtualMachineInstance;
  readonly claims: ReadonlyMap<string, PersistentVolumeClaim>;
  readonly bindings: BindingRegistry;
}

/** One thing that stands in the way. */
interface Blocker {
  readonly reason: "InterfaceNotLiveMigratable" | "DisksNotLiveMigratable";
  readonly message: string;
}

function diskProblem({ source }: GuestDisk, claims: MigrationFacts["claims"]): string | undefined {
  if (source.kind === "hostDisk" && !source.shared) {
    return "cannot migrate VMI with non-shared HostDisk";
  }
  const name = claimNameOf(source);
  if (name === undefined || source.kind === "ephemeral") return undefined;
  if (claims.get(name)?.spec.accessModes?.includes("ReadWriteMany") === true) return undefined;
  return `cannot migrate VMI: PVC ${name} is not shared, live migration requires that all PVCs must be shared (using ReadWriteMany access mode)`;
}

/** Whether whoever registered the binding says that it goes along; undefined: the iface names none. */
function isMigratablePlugin(iface: Iface, bindings: BindingRegistry): boolean | undefined {
  const name = iface.binding?.name;
  if (name === undefined) return undefined;
  return Object.hasOwn(bindings, name) && bindings[name]?.migration !== undefined;
}

/** Addresses of a pod's own network go along with a NAT alone, or where somebody says that they do. */
function canLeavePodNetwork({ vmi, bindings }: MigrationFacts, iface: Iface): boolean {
  const network = findByName(networksOf(vmi.spec), iface.name);
  const { kind } = bindingOf(iface, network, bindings);
  if (kind === "masquerade") return true;
  const annotation = names.ALLOW_POD_BRIDGE_MIGRATION_ANNOTATION;
  const isAllowed = vmi.metadata.annotations?.[annotation] !== undefined;
  return isMigratablePlugin(iface, bindings) ?? (kind === "bridge" && isAllowed);
}

function podNetworkProblem(facts: MigrationFacts): string | undefined {
  const { spec } = facts.vmi;
  const network = networksOf(spec).find(isDefaultNetwork);
  const iface = network && findByName(ifacesOf(spec), network.name);
  if (iface === undefined || canLeavePodNetwork(facts, iface)) return undefined;
  return "cannot migrate VMI which does not use masquerade or a migratable plugin to connect to the pod network";
}

/** Of secondary networks: what a plugin made for a device is the plugin's to make again. */
function pluginProblems({ vmi, bindings }: MigrationFacts): readonly string[] {
  const { spec } = vmi;
  return ifacesOf(spec).flatMap((iface) => {
    const network = findByName(networksOf(spec), iface.name);
    if (network === undefined || isDefaultNetwork(network)) return [];
    if (isMigratablePlugin(iface, bindings) !== false) return [];
    return [
      `cannot migrate VMI: interface ${iface.name} has binding ${iface.binding?.name ?? ""}, which is registered without migration`,
    ];
  });
}

/** KubeVirt's order; what else it knows (devices of the node, sealed memory, Hyper-V passthrough) no guest here has. */
function blockersOf(facts: MigrationFacts): readonly Blocker[] {
  const ofIfaces = [podNetworkProblem(facts) ?? [], pluginProblems(facts)].flat();
  const ofDisks = disksOf(facts.vmi.spec).flatMap((disk) => diskProblem(disk, facts.claims) ?? []);
  return [
    ...ofIfaces.map((message) => ({ reason: "InterfaceNotLiveMigratable", message }) as const),
    ...ofDisks.map((message) => ({ reason: "DisksNotLiveMigratable", message }) as const),
  ];
}

/** Several are told as KubeVirt tells several: each behind its code. */
function sayBlockers(blockers: readonly Blocker[]): string {
  const [first, ...others] = blockers;
  if (first !== undefined && others.length === 0) return first.message;
  return blockers.map(({ reason, message }) => `${reason}: ${message}`).join(", ");
}

/** The code of the first thing that stands in the way, and all of them in words. */
export function liveMigratableCondition(facts: MigrationFacts): NewCondition {
  const blockers = blockersOf(facts);
  const [first] = blockers;
  if (first === undefined) return { type: LIVE_MIGRATABLE, status: "True" };
  const { reason } = first;
  return { type: LIVE_MIGRATABLE, status: "False", reason, message: sayBlockers(blockers) };
}
