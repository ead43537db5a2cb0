// SPDX-License-Identifier: Apache-2.0
// Decides whether the guest can be live-migrated. Source: KubeVirt pkg/virt-handler, including reasons and messages.
import {
  isDefaultNetwork,
  names,
  type BindingRegistry,
  type Iface,
  type VirtualMachineInstance,
} from "@patchbay/api";
import type { PersistentVolumeClaim } from "@patchbay/api/kubernetes";
import { resolveBinding } from "../nics/bindings/resolve-binding.ts";
import { findClaimName, listDisks, type GuestDisk } from "../vm/spec/disks.ts";
import { findByName, ifacesOf, networksOf } from "../nics/nics.ts";
import type { NewCondition } from "./conditions.ts";

/** Condition type. Source: KubeVirt VirtualMachineInstanceIsMigratable. */
export const LIVE_MIGRATABLE = "LiveMigratable";

interface MigrationFacts {
  readonly vmi: VirtualMachineInstance;
  readonly claims: ReadonlyMap<string, PersistentVolumeClaim>;
  readonly bindings: BindingRegistry;
}

interface Blocker {
  readonly reason: "InterfaceNotLiveMigratable" | "DisksNotLiveMigratable";
  readonly message: string;
}

function diskProblem({ source }: GuestDisk, claims: MigrationFacts["claims"]): string | undefined {
  if (source.kind === "hostDisk" && !source.shared) {
    return "cannot migrate VMI with non-shared HostDisk";
  }
  const name = findClaimName(source);
  if (name === undefined || source.kind === "ephemeral") return undefined;
  if (claims.get(name)?.spec.accessModes?.includes("ReadWriteMany") === true) return undefined;
  return `cannot migrate VMI: PVC ${name} is not shared, live migration requires that all PVCs must be shared (using ReadWriteMany access mode)`;
}

/** Returns whether the interface's binding plugin supports migration; undefined if the interface has no binding plugin. */
function isMigratablePlugin(iface: Iface, bindings: BindingRegistry): boolean | undefined {
  const name = iface.binding?.name;
  if (name === undefined) return undefined;
  return Object.hasOwn(bindings, name) && bindings[name]?.migration !== undefined;
}

/** Checks whether the pod network's interface can migrate. A bridge without a plugin can migrate only if an annotation allows it. */
function isPodNetworkMigratable({ vmi, bindings }: MigrationFacts, iface: Iface): boolean {
  const network = findByName(networksOf(vmi.spec), iface.name);
  const { kind } = resolveBinding(iface, network, bindings);
  if (kind === "masquerade") return true;
  const annotation = names.ALLOW_POD_BRIDGE_MIGRATION_ANNOTATION;
  const isAllowed = vmi.metadata.annotations?.[annotation] !== undefined;
  return isMigratablePlugin(iface, bindings) ?? (kind === "bridge" && isAllowed);
}

function findPodNetworkProblem(facts: MigrationFacts): string | undefined {
  const { spec } = facts.vmi;
  const network = networksOf(spec).find(isDefaultNetwork);
  const iface = network && findByName(ifacesOf(spec), network.name);
  if (iface === undefined || isPodNetworkMigratable(facts, iface)) return undefined;
  return "cannot migrate VMI which does not use masquerade or a migratable plugin to connect to the pod network";
}

function findPluginProblems({ vmi, bindings }: MigrationFacts): readonly string[] {
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

/** Reports devices of resource claims. Such a device cannot migrate: on the target node, the guest would get another device and MAC. */
function findClaimProblems({ vmi: { spec } }: MigrationFacts): readonly string[] {
  return networksOf(spec)
    .filter(({ resourceClaim }) => resourceClaim !== undefined)
    .map(
      ({ name }) =>
        `cannot migrate VMI: interface ${name} is a device of a resource claim, which stays on its node`,
    );
}

/** Lists blockers in KubeVirt's order. Omits KubeVirt's blockers for features that Patchbay does not support. */
function listBlockers(facts: MigrationFacts): readonly Blocker[] {
  const ifaceBlockers = [
    findPodNetworkProblem(facts) ?? [],
    findPluginProblems(facts),
    findClaimProblems(facts),
  ].flat();
  const diskBlockers = listDisks(facts.vmi.spec).flatMap(
    (disk) => diskProblem(disk, facts.claims) ?? [],
  );
  return [
    ...ifaceBlockers.map((message) => ({ reason: "InterfaceNotLiveMigratable", message }) as const),
    ...diskBlockers.map((message) => ({ reason: "DisksNotLiveMigratable", message }) as const),
  ];
}

/** Joins messages as KubeVirt does. If there are several messages, each message begins with its reason. */
function printBlockers(blockers: readonly Blocker[]): string {
  const [firstBlocker, ...otherBlockers] = blockers;
  if (firstBlocker !== undefined && otherBlockers.length === 0) return firstBlocker.message;
  return blockers.map(({ reason, message }) => `${reason}: ${message}`).join(", ");
}

export function buildLiveMigratableCondition(facts: MigrationFacts): NewCondition {
  const blockers = listBlockers(facts);
  const [firstBlocker] = blockers;
  if (firstBlocker === undefined) return { type: LIVE_MIGRATABLE, status: "True" };
  const { reason } = firstBlocker;
  return { type: LIVE_MIGRATABLE, status: "False", reason, message: printBlockers(blockers) };
}
