// SPDX-License-Identifier: Apache-2.0
// Could the guest move to another node while it runs? Source: KubeVirt pkg/virt-handler, whose reasons and words these are.
import {
  isDefaultNetwork,
  type BindingRegistry,
  type PersistentVolumeClaim,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { bindingOf } from "../bindings/binding-of.ts";
import { claimNameOf } from "../spec/disk-source.ts";
import { disksOf, type GuestDisk } from "../spec/disks.ts";
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

function diskProblem({ source }: GuestDisk, claims: MigrationFacts["claims"]): string | undefined {
  if (source.kind === "hostDisk" && !source.shared) {
    return "cannot migrate VMI with non-shared HostDisk";
  }
  const name = claimNameOf(source);
  if (name === undefined || source.kind === "ephemeral") return undefined;
  if (claims.get(name)?.spec.accessModes?.includes("ReadWriteMany") === true) return undefined;
  return `cannot migrate VMI: PVC ${name} is not shared, live migration requires that all PVCs must be shared (using ReadWriteMany access mode)`;
}

/** Addresses of a pod's own network go along with a NAT alone. */
function ifaceProblem({ vmi, bindings }: MigrationFacts): string | undefined {
  const network = networksOf(vmi.spec).find(isDefaultNetwork);
  const iface = network && findByName(ifacesOf(vmi.spec), network.name);
  if (iface === undefined) return undefined;
  return bindingOf(iface, network, bindings).kind === "masquerade"
    ? undefined
    : "cannot migrate VMI which does not use masquerade or a migratable plugin to connect to the pod network";
}

/** False as long as nothing moves guests; what else would stand in the way is told first. */
export function liveMigratableCondition(facts: MigrationFacts): NewCondition {
  const told = { type: LIVE_MIGRATABLE, status: "False" } as const;
  for (const disk of disksOf(facts.vmi.spec)) {
    const message = diskProblem(disk, facts.claims);
    if (message !== undefined) return { ...told, reason: "DisksNotLiveMigratable", message };
  }
  const message = ifaceProblem(facts);
  if (message !== undefined) return { ...told, reason: "InterfaceNotLiveMigratable", message };
  return { ...told, reason: "MigrationNotBuilt", message: "live migration is not built yet" };
}
