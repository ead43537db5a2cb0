// SPDX-License-Identifier: Apache-2.0
// PUT .../migrate: a VM's guest is to go to another node.
import {
  apiVersionOf,
  VIRTUAL_MACHINE_INSTANCE_MIGRATIONS,
  VIRTUAL_MACHINES,
  type VirtualMachineInstanceMigration,
} from "@patchbay/api";
import { parseMigrateBody, planMigrate } from "@patchbay/core";
import { findVmWithVmi } from "../../changes/targets.ts";
import type { Deps } from "../../deps.ts";
import { toAcceptedAnswer, toNotFoundAnswer, toRefusalAnswer } from "../../http/answers.ts";
import type { Call, CallHandler } from "../call.ts";

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
