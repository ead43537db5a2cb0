// SPDX-License-Identifier: Apache-2.0
// PUT .../start, stop, restart, migrate and evacuate/cancel.
import {
  parseStartBody,
  planStart,
  parseStopBody,
  planStop,
  parseRestartBody,
  planRestart,
  parseMigrateBody,
  planMigrate,
  readMembers,
  type NicTarget,
} from "@patchbay/core/requests";
import { changeRunState } from "../changes/run-state.ts";
import type { Deps } from "../deps.ts";
import {
  type CallHandler,
  type Call,
  toAcceptedAnswer,
  toNotFoundAnswer,
  toRefusalAnswer,
  toDoneAnswer,
  type Answer,
} from "../http/answers.ts";
import {
  apiVersionOf,
  VIRTUAL_MACHINE_INSTANCE_MIGRATIONS,
  VIRTUAL_MACHINES,
  type VirtualMachineInstanceMigration,
  VIRTUAL_MACHINE_INSTANCES,
} from "@patchbay/api";
import { findVmWithVmi, aboutTarget, observeTarget } from "../changes/targets.ts";
import { retryOnConflict } from "../changes/retry.ts";

/** Responds with 202; 409 if a guest runs or the run strategy starts it anyway; 422 if the VM cannot start. */
export function start(deps: Deps): CallHandler {
  return (call) => changeRunState(deps, call, { parse: parseStartBody, plan: planStart });
}

/** Responds with 202, also if it cancels a pending start; 409 if nothing runs. */
export function stop(deps: Deps): CallHandler {
  return (call) => changeRunState(deps, call, { parse: parseStopBody, plan: planStop });
}

/** Responds with 202; 409 if nothing runs; 422 if the guest would not start again. */
export function restart(deps: Deps): CallHandler {
  return (call) => changeRunState(deps, call, { parse: parseRestartBody, plan: planRestart });
}

const NAME_BYTES = 5;

function buildMigration(
  { namespace }: Call,
  spec: VirtualMachineInstanceMigration["spec"],
  { randomBytes }: Pick<Deps, "randomBytes">,
): VirtualMachineInstanceMigration {
  const type = VIRTUAL_MACHINE_INSTANCE_MIGRATIONS;
  const suffix = Buffer.from(randomBytes(NAME_BYTES)).toString("hex");
  // Source: KubeVirt MigrateVMRequestHandler, generateName.
  const metadata = { name: `kubevirt-migrate-vm-${suffix}`, namespace };
  return { apiVersion: apiVersionOf(type), kind: type.kind, metadata, spec };
}

/** Responds with 202 and creates a migration; 404 without a VM, 409 without a running guest, 400 if the guest cannot migrate. */
export function migrate(deps: Deps): CallHandler {
  return async (call) => {
    const about = { type: VIRTUAL_MACHINES, name: call.name };
    const parsed = parseMigrateBody(call.body);
    if (!parsed.ok) return toRefusalAnswer(parsed.refusal, about);
    const found = await findVmWithVmi(deps.store, call);
    if (found === undefined) return toNotFoundAnswer(about);
    const plan = planMigrate(found.vmi, parsed.value);
    if (plan.kind === "refused") return toRefusalAnswer(plan.refusal, about);
    const migration = buildMigration(call, plan.spec, deps);
    const { dryRun } = call;
    await deps.store.create(VIRTUAL_MACHINE_INSTANCE_MIGRATIONS, migration, { dryRun });
    return toAcceptedAnswer(plan.message);
  };
}

const PATH = "/status/evacuationNodeName";

async function cancel(deps: Deps, kind: NicTarget["kind"], call: Call): Promise<Answer> {
  const about = aboutTarget(kind, call);
  const target = await observeTarget(deps.store, kind, call);
  if (target === undefined) return toNotFoundAnswer(about);
  if (target.vmi === undefined) return toNotFoundAnswer(aboutTarget("vmi", call));
  const object = `VMI ${call.namespace}/${call.name}`;
  const node = target.vmi.status?.evacuationNodeName;
  if (node === undefined) return toDoneAnswer(`${object} is not being evacuated`);
  const operations = [
    { op: "test", path: PATH, value: node },
    { op: "remove", path: PATH },
  ] as const;
  const options = { subresource: "status", dryRun: call.dryRun } as const;
  await deps.store.patch(VIRTUAL_MACHINE_INSTANCES, call, { type: "json", operations }, options);
  return toDoneAnswer(`the evacuation of ${object} from node ${node} was canceled`);
}

/** Responds with 200, or 404 without a guest. A running migration continues. Source: KubeVirt pkg/virt-api/rest/evacuate_cancel.go. */
export function evacuateCancel(deps: Deps, kind: NicTarget["kind"]): CallHandler {
  return (call) => {
    const about = aboutTarget(kind, call);
    const members = readMembers(call.body);
    if (!members.ok) return Promise.resolve(toRefusalAnswer(members.refusal, about));
    return retryOnConflict(() => cancel(deps, kind, call), deps, about);
  };
}
