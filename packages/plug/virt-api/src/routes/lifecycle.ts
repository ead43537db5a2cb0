// SPDX-License-Identifier: Apache-2.0
// PUT .../start: a VM is to run.
import {
  parseStartBody,
  planStart,
  parseStopBody,
  planStop,
  parseRestartBody,
  planRestart,
  parseMigrateBody,
  planMigrate,
  membersOf,
  type NicTarget,
} from "@patchbay/core";
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
import { insist } from "../changes/retry.ts";

/** Answers 202; 409 where a guest runs already or the run strategy starts it; 422 where it cannot be started at all. */
export function start(deps: Deps): CallHandler {
  return (call) => changeRunState(deps, call, { parse: parseStartBody, plan: planStart });
}

/** Answers 202, also when a start that is still waited for is taken back; 409 where nothing runs. */
export function stop(deps: Deps): CallHandler {
  return (call) => changeRunState(deps, call, { parse: parseStopBody, plan: planStop });
}

/** Answers 202; 409 where nothing runs; 422 where the guest would end and not come back. */
export function restart(deps: Deps): CallHandler {
  return (call) => changeRunState(deps, call, { parse: parseRestartBody, plan: planRestart });
}

/** Bytes of chance in a migration's name. */
const NAME_BYTES = 5;

function migrationOf(
  { namespace }: Call,
  spec: VirtualMachineInstanceMigration["spec"],
  { randomBytes }: Pick<Deps, "randomBytes">,
): VirtualMachineInstanceMigration {
  const type = VIRTUAL_MACHINE_INSTANCE_MIGRATIONS;
  const chance = Buffer.from(randomBytes(NAME_BYTES)).toString("hex");
  // Source: KubeVirt MigrateVMRequestHandler, generateName.
  const metadata = { name: `kubevirt-migrate-vm-${chance}`, namespace };
  return { apiVersion: apiVersionOf(type), kind: type.kind, metadata, spec };
}

/** Answers 202 and makes a migration; 404 without a VM, 409 where no guest runs, 400 where it cannot leave. */
export function migrate(deps: Deps): CallHandler {
  return async (call) => {
    const about = { type: VIRTUAL_MACHINES, name: call.name };
    const parsed = parseMigrateBody(call.body);
    if (!parsed.ok) return toRefusalAnswer(parsed.refusal, about);
    const found = await findVmWithVmi(deps.store, call);
    if (found === undefined) return toNotFoundAnswer(about);
    const plan = planMigrate(found.vmi, parsed.value);
    if (plan.kind === "refused") return toRefusalAnswer(plan.refusal, about);
    const migration = migrationOf(call, plan.spec, deps);
    const { dryRun } = call;
    await deps.store.create(VIRTUAL_MACHINE_INSTANCE_MIGRATIONS, migration, { dryRun });
    return toAcceptedAnswer(plan.message);
  };
}

// Source: KubeVirt pkg/virt-api/rest/evacuate_cancel.go.

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

/** Answers 200, also where nothing is evacuated; 404 without a guest. A migration that runs is not ended. */
export function evacuateCancel(deps: Deps, kind: NicTarget["kind"]): CallHandler {
  return (call) => {
    const about = aboutTarget(kind, call);
    const members = membersOf(call.body);
    if (!members.ok) return Promise.resolve(toRefusalAnswer(members.refusal, about));
    return insist(() => cancel(deps, kind, call), deps, about);
  };
}
