// SPDX-License-Identifier: Apache-2.0
// Handles the `migrate` subresource. Source: KubeVirt pkg/virt-api/rest, MigrateVMRequestHandler; MigrateOptions.
import type { VirtualMachineInstance, VirtualMachineInstanceMigration } from "@patchbay/api";
import { isJsonObject } from "@patchbay/api/json";
import { migrationProblem } from "../migration/requests.ts";
import { readMembers, toRefusal, type Parsed, type Refusal } from "./refusal.ts";

type MigrationSpec = VirtualMachineInstanceMigration["spec"];
type Labels = NonNullable<MigrationSpec["addedNodeSelector"]>;

interface MigrateOptions {
  readonly addedNodeSelector?: Labels;
}

type MigratePlan =
  | { readonly kind: "refused"; readonly refusal: Refusal }
  | { readonly kind: "create"; readonly spec: MigrationSpec; readonly message: string };

function isLabels(value: unknown): value is Labels {
  return (
    isJsonObject(value) && Object.values(value).every((text: unknown) => typeof text === "string")
  );
}

export function parseMigrateBody(body: unknown): Parsed<MigrateOptions> {
  const members = readMembers(body);
  if (!members.ok) return members;
  const { addedNodeSelector } = members.value;
  if (addedNodeSelector === undefined || addedNodeSelector === null) return { ok: true, value: {} };
  if (isLabels(addedNodeSelector)) return { ok: true, value: { addedNodeSelector } };
  const field = "addedNodeSelector";
  const message = "addedNodeSelector must be an object of labels and their values";
  return {
    ok: false,
    refusal: toRefusal(400, [{ reason: "FieldValueInvalid", field, message }]),
  };
}

export function planMigrate(
  vmi: VirtualMachineInstance | undefined,
  options: MigrateOptions,
): MigratePlan {
  if (vmi?.status?.phase !== "Running" || vmi.metadata.deletionTimestamp !== undefined) {
    return { kind: "refused", refusal: toRefusal(409, [], "VM is not running") };
  }
  const { name, namespace = "" } = vmi.metadata;
  const problem = migrationProblem(vmi, { namespace, name });
  if (problem !== undefined) return { kind: "refused", refusal: toRefusal(400, [], problem) };
  return {
    kind: "create",
    spec: { vmiName: name, ...options },
    message: "the guest will be migrated to another node",
  };
}
