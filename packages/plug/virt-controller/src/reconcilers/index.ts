// SPDX-License-Identifier: Apache-2.0
// The loop: a VM and the VMI of its name in one pass, so that what the VM's part writes goes on into the pod at once.
import { after, done, earliest, type Next } from "@patchbay/kube";
import type { Deps } from "../deps.ts";
import { reconcileEvacuation } from "./evacuation.ts";
import { reconcileMigrations } from "./migration/index.ts";
import { reconcileVm } from "./vm/index.ts";
import { reconcileVmi } from "./vmi/index.ts";

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
