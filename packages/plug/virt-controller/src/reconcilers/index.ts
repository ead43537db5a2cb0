// SPDX-License-Identifier: Apache-2.0
// The loop: a VM and the VMI of its name in one pass, so that what the VM's part writes goes on into the pod at once.
import { KUBEVIRTS, type ApiService, type KubeVirt } from "@patchbay/api";
import { installationStatus, statusPatch } from "@patchbay/core";
import { done, keyOf, printTime, type Next, after, earliest } from "@patchbay/kube";
import type { Cache, Clock, Store } from "@patchbay/core/ports";
import type { Deps } from "../deps.ts";
import { reconcileEvacuation } from "./evacuation.ts";
import { reconcileMigrations } from "./migration/index.ts";
import { reconcileVm } from "./vm/index.ts";
import { reconcileVmi } from "./vmi/index.ts";

/** What it rests on. */
interface InstallationDeps {
  readonly kubevirts: Cache<KubeVirt>;
  /** virt-api's alone. */
  readonly apiServices: Cache<ApiService>;
  readonly store: Pick<Store, "patch">;
  readonly clock: Pick<Clock, "now">;
  /** Of this program. */
  readonly version: string;
}

/** One write at most, of the object whose configuration counts; safe to repeat. */
export async function reconcileInstallation(deps: InstallationDeps): Promise<Next> {
  const [kubevirt] = deps.kubevirts.list();
  if (kubevirt === undefined) return done();
  const [apiService] = deps.apiServices.list();
  const facts = { kubevirt, apiService, version: deps.version };
  const next = installationStatus(facts, printTime(deps.clock.now()));
  const operations = statusPatch(kubevirt, next);
  if (operations.length > 0) {
    const patch = { type: "json", operations } as const;
    await deps.store.patch(KUBEVIRTS, keyOf(kubevirt), patch, { subresource: "status" });
  }
  return done();
}

type PartResult = { readonly next: Next } | { readonly error: unknown };

async function attempt(part: Promise<Next>): Promise<PartResult> {
  try {
    return { next: await part };
  } catch (error) {
    return { error };
  }
}

function lookMs(next: Next): number | undefined {
  return next.kind === "after" ? next.ms : undefined;
}

/**
 * One pass over the VM, the VMI of that name and its migrations; any of them may not be there. Safe to repeat.
 * @throws the first failure, after all have had their turn
 */
export async function reconcile(key: string, deps: Deps): Promise<Next> {
  const vm = await attempt(reconcileVm(key, deps));
  // Before the VMI's: a pod that ends with a migration is no guest's end.
  const migrations = await attempt(reconcileMigrations(key, deps));
  const vmi = await attempt(reconcileVmi(key, deps));
  // What has come to its end in this pass is no longer in the way of the next.
  const evacuation = await attempt(reconcileEvacuation(key, deps));
  if ("error" in vm) throw vm.error;
  if ("error" in migrations) throw migrations.error;
  if ("error" in vmi) throw vmi.error;
  if ("error" in evacuation) throw evacuation.error;
  const ms = earliest([
    lookMs(vm.next),
    lookMs(migrations.next),
    lookMs(vmi.next),
    lookMs(evacuation.next),
  ]);
  return ms === undefined ? done() : after(ms);
}
