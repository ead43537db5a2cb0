// SPDX-License-Identifier: Apache-2.0
// Reconciliation of evacuations. Creates migrations until the guest has left the node.
import {
  evictionStrategyOf,
  VIRTUAL_MACHINE_INSTANCE_MIGRATIONS,
  VIRTUAL_MACHINE_INSTANCES,
  type VirtualMachineInstance,
  type VirtualMachineInstanceMigration,
} from "@patchbay/api";
import { isAppError } from "@patchbay/base";
import { isSchedulable } from "@patchbay/core/node";
import { planEvacuation, type EvacuationStep } from "@patchbay/core/migration";
import { after, done, keyOf, parseKey, printKey, type Next } from "@patchbay/kube";
import type { Deps } from "../deps.ts";
import { listMigrations } from "./migration/observe.ts";

async function createMigration(
  migration: VirtualMachineInstanceMigration,
  { store, mutationCache, log }: Deps,
): Promise<void> {
  try {
    mutationCache.note(await store.create(VIRTUAL_MACHINE_INSTANCE_MIGRATIONS, migration));
    const { namespace = "", name } = migration.metadata;
    const vmi = printKey({ namespace, name: migration.spec.vmiName ?? "" });
    log.info("requested a migration to evacuate a guest", { vmi, object: name });
  } catch (error) {
    if (!isAppError(error, "KUBE_ALREADY_EXISTS")) throw error;
  }
}

/** Removes the evacuation mark unless a new eviction has changed its value. */
async function clearEvacuation(
  vmi: VirtualMachineInstance,
  node: string,
  { store, mutationCache }: Deps,
): Promise<void> {
  const path = "/status/evacuationNodeName";
  const operations = [{ op: "test", path, value: node } as const, { op: "remove", path } as const];
  const patch = { type: "json", operations } as const;
  const options = { subresource: "status" } as const;
  mutationCache.note(await store.patch(VIRTUAL_MACHINE_INSTANCES, keyOf(vmi), patch, options));
}

async function runStep(
  step: EvacuationStep,
  vmi: VirtualMachineInstance,
  deps: Deps,
): Promise<Next> {
  switch (step.kind) {
    case "wait":
      return after(step.forMs);
    case "createMigration":
      await createMigration(step.migration, deps);
      return done();
    case "clearMark":
      await clearEvacuation(vmi, step.node, deps);
      return done();
  }
}

export async function reconcileEvacuation(key: string, deps: Deps): Promise<Next> {
  const cached = deps.vmis.find(parseKey(key));
  const vmi = cached && deps.mutationCache.newest(cached);
  if (vmi?.status?.evacuationNodeName === undefined) return done();
  const step = planEvacuation({
    vmi,
    migrations: listMigrations(key, deps),
    clusterStrategy: evictionStrategyOf(deps.kubevirts.list()[0]),
    nowMs: deps.clock.now(),
    isNodeSchedulable: isSchedulable(deps.nodes.find({ name: vmi.status.nodeName ?? "" })),
  });
  return step === undefined ? done() : runStep(step, vmi, deps);
}
