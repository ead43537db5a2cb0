// SPDX-License-Identifier: Apache-2.0
// Reconciliation of a VM with its VMI and migrations, and of the installation's status.
import { KUBEVIRTS, type KubeVirt } from "@patchbay/api";
import type { ApiService } from "@patchbay/api/kubernetes";
import { installationStatus, statusPatch } from "@patchbay/core/status";
import { done, keyOf, printTime, type Next, after, earliest } from "@patchbay/kube";
import type { Cache, Store } from "@patchbay/core/interfaces";
import type { Clock } from "@patchbay/base";
import type { Deps } from "../deps.ts";
import { reconcileEvacuation } from "./evacuation.ts";
import { reconcileIpamClaims } from "./ipam-claims.ts";
import { reconcileMigrations } from "./migration/index.ts";
import { reconcileVm } from "./vm/index.ts";
import { reconcileVmi } from "./vmi/index.ts";

interface InstallationDeps {
  readonly kubevirts: Cache<KubeVirt>;
  /** Cache with only the APIService of virt-api. */
  readonly apiServices: Cache<ApiService>;
  readonly store: Pick<Store, "patch">;
  readonly clock: Pick<Clock, "now">;
  readonly version: string;
}

/** Writes the status of the installation to the KubeVirt object if the status changed. */
export async function reconcileInstallation(deps: InstallationDeps): Promise<Next> {
  const [kubevirt] = deps.kubevirts.list();
  if (kubevirt === undefined) return done();
  const [apiService] = deps.apiServices.list();
  const facts = { kubevirt, apiService, version: deps.version };
  const status = installationStatus(facts, printTime(deps.clock.now()));
  const operations = statusPatch(kubevirt, status);
  if (operations.length > 0) {
    const patch = { type: "json", operations } as const;
    await deps.store.patch(KUBEVIRTS, keyOf(kubevirt), patch, { subresource: "status" });
  }
  return done();
}

type PartResult = { readonly next: Next } | { readonly error: unknown };

async function settle(part: Promise<Next>): Promise<PartResult> {
  try {
    return { next: await part };
  } catch (error) {
    return { error };
  }
}

function findDelayMs(next: Next): number | undefined {
  return next.kind === "after" ? next.ms : undefined;
}

/** Reconciles a VM, its VMI, migrations, IPAMClaims and evacuation. The objects may be missing. After all steps, throws the first error. */
export async function reconcile(key: string, deps: Deps): Promise<Next> {
  const vm = await settle(reconcileVm(key, deps));
  // Migrations are reconciled before the VMI. Otherwise, the end of the source pod after a migration would count as the guest's end.
  const migrations = await settle(reconcileMigrations(key, deps));
  const claims = await settle(reconcileIpamClaims(key, deps));
  const vmi = await settle(reconcileVmi(key, deps));
  // The evacuation is reconciled last, because it depends on whether a migration has ended in this pass.
  const evacuation = await settle(reconcileEvacuation(key, deps));
  if ("error" in vm) throw vm.error;
  if ("error" in migrations) throw migrations.error;
  if ("error" in claims) throw claims.error;
  if ("error" in vmi) throw vmi.error;
  if ("error" in evacuation) throw evacuation.error;
  const ms = earliest([
    findDelayMs(vm.next),
    findDelayMs(migrations.next),
    findDelayMs(vmi.next),
    findDelayMs(evacuation.next),
  ]);
  return ms === undefined ? done() : after(ms);
}
