// SPDX-License-Identifier: Apache-2.0
// Reconciliation of evacuations. Creates migrations until the guest has left the node.
import {
  evictionStrategyOf,
  VIRTUAL_MACHINE_INSTANCE_MIGRATIONS,
  VIRTUAL_MACHINE_INSTANCES,
  type VirtualMachineInstance,
  type VirtualMachineInstanceMigration,
} from "@patchbay/api";
import type { JsonPatchOperation } from "@patchbay/api/json";
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

const MARK_PATH = "/status/evacuationNodeName";
const DRAIN_PATH = "/status/drainedNodeName";

type MarkStep = Exclude<EvacuationStep, { readonly kind: "wait" | "createMigration" }>;

/** Builds a patch of the evacuation fields. The patch fails if an eviction changed `evacuationNodeName`, unless `step` is `clearDrain`. */
function buildMarkOperations(
  step: MarkStep,
  { status }: VirtualMachineInstance,
): readonly JsonPatchOperation[] {
  const removeRecord =
    status?.drainedNodeName === undefined ? [] : [{ op: "remove", path: DRAIN_PATH } as const];
  switch (step.kind) {
    case "clearMark":
      return [
        { op: "test", path: MARK_PATH, value: step.node },
        { op: "remove", path: MARK_PATH },
        ...removeRecord,
      ];
    case "recordDrain":
      return [
        { op: "test", path: MARK_PATH, value: step.node },
        { op: "add", path: DRAIN_PATH, value: step.node },
      ];
    case "clearDrain":
      return removeRecord;
  }
}

async function changeMark(
  step: MarkStep,
  vmi: VirtualMachineInstance,
  { store, mutationCache, log }: Deps,
): Promise<void> {
  const patch = { type: "json", operations: buildMarkOperations(step, vmi) } as const;
  const options = { subresource: "status" } as const;
  mutationCache.note(await store.patch(VIRTUAL_MACHINE_INSTANCES, keyOf(vmi), patch, options));
  if (step.kind === "clearMark")
    log.info("ended the evacuation of a guest", { vmi: printKey(keyOf(vmi)), node: step.node });
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
    case "recordDrain":
      await changeMark(step, vmi, deps);
      return reconcileEvacuation(printKey(keyOf(vmi)), deps);
    case "clearMark":
    case "clearDrain":
      await changeMark(step, vmi, deps);
      return done();
  }
}

export async function reconcileEvacuation(key: string, deps: Deps): Promise<Next> {
  const cached = deps.vmis.find(parseKey(key));
  const vmi = cached && deps.mutationCache.newest(cached);
  const { evacuationNodeName, drainedNodeName } = vmi?.status ?? {};
  if (vmi === undefined || (evacuationNodeName ?? drainedNodeName) === undefined) return done();
  const step = planEvacuation({
    vmi,
    migrations: listMigrations(key, deps),
    clusterStrategy: evictionStrategyOf(deps.kubevirts.list()[0]),
    nowMs: deps.clock.now(),
    isNodeSchedulable: isSchedulable(deps.nodes.find({ name: vmi.status?.nodeName ?? "" })),
  });
  return step === undefined ? done() : runStep(step, vmi, deps);
}
