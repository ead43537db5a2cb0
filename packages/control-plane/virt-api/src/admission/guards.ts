// SPDX-License-Identifier: Apache-2.0
// Admission checks that RBAC cannot express: which VMI status a virt-handler may write, and who may write a launcher.
import { names, VIRTUAL_MACHINE_INSTANCES, type MigrationState } from "@patchbay/api";
import { isEqual } from "@patchbay/base";
import { isNodePhase, NODE_VM_CONDITIONS, NODE_VM_FIELDS } from "@patchbay/core/status";
import { migrationIn, NODE_MIGRATION_FIELDS, type NodeRole } from "@patchbay/core/migration";
import { VIRT_HANDLER_ACCOUNT, findAgentNode, type PodLookup } from "../http/calls.ts";
import { ALLOWED, asObject, type AdmissionRequest, type Verdict } from "./review.ts";

/** VMI status fields that virt-handler writes; see docs/reference/ownership.md. */
const VIRT_HANDLER_FIELDS: readonly string[] = NODE_VM_FIELDS;

function readStatus(object: unknown): Readonly<Record<string, unknown>> {
  return asObject(asObject(object)["status"]);
}

/** Returns the VMI's node before this write. If `nodeName` was unset, returns the nodes of the VMI's pods. */
function findOwnerNodes(oldObject: unknown): readonly unknown[] {
  const { nodeName, activePods } = readStatus(oldObject);
  return nodeName === undefined ? Object.values(asObject(activePods)) : [nodeName];
}

function findTargetNode(oldObject: unknown): string | undefined {
  // The cast is safe, because the API server validated the migration state against the schema.
  const state = readStatus(oldObject)["migrationState"] as MigrationState | undefined;
  return migrationIn(state)?.targetNode;
}

function findRole(oldObject: unknown, node: string): NodeRole | undefined {
  if (findOwnerNodes(oldObject).includes(node)) return "owner";
  return findTargetNode(oldObject) === node ? "target" : undefined;
}

function deny(message: string): Verdict {
  return { allowed: false, code: 403, message, causes: [] };
}

interface FieldChange {
  readonly field: string;
  readonly from: unknown;
  readonly to: unknown;
}

function findChanges(
  before: Readonly<Record<string, unknown>>,
  after: Readonly<Record<string, unknown>>,
): readonly FieldChange[] {
  const fields = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...fields]
    .map((field) => ({ field, from: before[field], to: after[field] }))
    .filter(({ from, to }) => !isEqual(from, to));
}

function listForeignConditions(conditions: unknown): readonly unknown[] {
  const list: readonly unknown[] = Array.isArray(conditions) ? conditions : [];
  return list.filter((condition) => {
    const { type } = asObject(condition);
    return typeof type !== "string" || !NODE_VM_CONDITIONS.includes(type);
  });
}

const MIGRATION_FIELD = "migrationState";

function splitMigration(changes: readonly FieldChange[]): readonly FieldChange[] {
  return changes.flatMap((change) => {
    if (change.field !== MIGRATION_FIELD) return [change];
    const members = findChanges(asObject(change.from), asObject(change.to));
    return members.map((member) => ({ ...member, field: `${MIGRATION_FIELD}.${member.field}` }));
  });
}

function listWritableMigrationFields(role: NodeRole, oldObject: unknown): readonly string[] {
  const fields = findTargetNode(oldObject) === undefined ? [] : NODE_MIGRATION_FIELDS[role];
  return fields.map((field) => `${MIGRATION_FIELD}.${field}`);
}

function isOwnerChange({ field, from, to }: FieldChange): boolean {
  if (field === "conditions")
    return isEqual(listForeignConditions(from), listForeignConditions(to));
  return field === "phase" ? isNodePhase(from, to) : VIRT_HANDLER_FIELDS.includes(field);
}

function findForbiddenChange(
  { oldObject, object }: AdmissionRequest,
  role: NodeRole,
): FieldChange | undefined {
  const migrationFields = listWritableMigrationFields(role, oldObject);
  const isAllowed = (change: FieldChange): boolean =>
    migrationFields.includes(change.field) || (role === "owner" && isOwnerChange(change));
  return splitMigration(findChanges(readStatus(oldObject), readStatus(object))).find(
    (change) => !isAllowed(change),
  );
}

function printChange({ field, from, to }: FieldChange): string {
  if (field !== "phase") return `status.${field}`;
  const [oldPhase, newPhase] = [from, to].map((phase) =>
    typeof phase === "string" ? phase : "none",
  );
  return `status.phase: ${newPhase ?? ""} after ${oldPhase ?? ""}`;
}

function checkAgent(request: AdmissionRequest, node: string | undefined): Verdict {
  const { user } = request;
  if (node === undefined) {
    return deny(
      `User "${user.name}" does not name exactly one node, by a token bound to a pod or by one group ${names.NODE_GROUP_PREFIX}NODE`,
    );
  }
  const role = findRole(request.oldObject, node);
  if (role === undefined) {
    return deny(`User "${user.name}" of node "${node}" may not write objects of another node`);
  }
  const forbiddenChange = findForbiddenChange(request, role);
  return forbiddenChange === undefined
    ? ALLOWED
    : deny(
        `User "${user.name}" may not write ${printChange(forbiddenChange)}: virt-handler does not own it`,
      );
}

/** Checks writes of a VMI's status by virt-handlers and allows all other writes. @throws AppError if virt-handler's pod cannot be read */
export async function guardStatus(pods: PodLookup, request: AdmissionRequest): Promise<Verdict> {
  const { kind, user } = request;
  if (kind !== VIRTUAL_MACHINE_INSTANCES.kind || user.name !== VIRT_HANDLER_ACCOUNT) return ALLOWED;
  return checkAgent(request, await findAgentNode(user, pods));
}

/** Fields of a launcher pod that Patchbay trusts. The match conditions of the webhook for launchers must list the same fields. */
const TRUSTED_FIELDS = [
  ["labels", names.KUBEVIRT_LABEL],
  ["annotations", names.NETWORK_STATUS_ANNOTATION],
  ["annotations", names.ATTACHMENT_ERRORS_ANNOTATION],
  ["annotations", names.CNI_GATEWAYS_ANNOTATION],
] as const;

function readMetadata(object: unknown, section: string, key: string): unknown {
  return asObject(asObject(asObject(object)["metadata"])[section])[key];
}

function isLauncher(object: unknown): boolean {
  return readMetadata(object, "labels", names.KUBEVIRT_LABEL) === names.LAUNCHER_LABEL_VALUE;
}

/**
 * Rejects changes of a launcher's trusted fields, and new launchers that already report networks. The launcher label is a trusted field, so
 * that a user cannot forge a pod's annotations first and then make it a launcher.
 */
export function guardLauncher({ operation, object, oldObject }: AdmissionRequest): Verdict {
  if (!isLauncher(object) && !isLauncher(oldObject)) return ALLOWED;
  const changedField = TRUSTED_FIELDS.find(
    ([section, key]) =>
      readMetadata(object, section, key) !== readMetadata(oldObject, section, key) &&
      !(operation === "CREATE" && section === "labels"),
  );
  if (changedField === undefined) return ALLOWED;
  const [section, key] = changedField;
  const message = `metadata.${section}["${key}"] of a launcher pod may only be written by its node, through pods/status`;
  return { allowed: false, code: 403, message, causes: [] };
}
