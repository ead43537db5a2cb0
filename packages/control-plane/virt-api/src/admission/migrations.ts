// SPDX-License-Identifier: Apache-2.0
// Admission of migrations and of evictions of launcher pods.
import {
  names,
  VIRTUAL_MACHINE_INSTANCE_MIGRATIONS,
  VIRTUAL_MACHINE_INSTANCES,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { respondToEviction, inFlightProblem, migrationProblem } from "@patchbay/core/migration";
import { isEqual, messageOf } from "@patchbay/base";
import type { Deps } from "../deps.ts";
import { ALLOWED, asObject, toVerdict, type AdmissionRequest, type Verdict } from "./review.ts";

/** Kind of an eviction request. Source: Kubernetes policy/v1 Eviction. */
const EVICTION_KIND = "Eviction";

const CONTROLLER_ACCOUNT = `${names.SERVICE_ACCOUNT_PREFIX}virt-controller`;

function validateChange({ object, oldObject }: AdmissionRequest): Verdict {
  if (isEqual(asObject(object)["spec"], asObject(oldObject)["spec"])) return ALLOWED;
  const message = "update of Migration object's spec is restricted";
  return toVerdict([{ reason: "FieldValueNotSupported", field: "spec", message }]);
}

/** Rejects a priority from any user except virt-controller. Source: KubeVirt migration-create-admitter.go. */
function findPriorityProblem(
  priority: unknown,
  { user }: Pick<AdmissionRequest, "user">,
): Verdict | undefined {
  if (priority === undefined || user.name === CONTROLLER_ACCOUNT) return undefined;
  const field = "spec.priority";
  const message = `${field}: only virt-controller may set a migration's priority; omit it`;
  return {
    allowed: false,
    code: 403,
    message,
    causes: [{ reason: "FieldValueForbidden", field, message }],
  };
}

/** Returns an error message if the VMI is already migrating. Reads the API server, because a cache may lack the newest migration. */
async function findInFlight(
  { store }: Pick<Deps, "store">,
  vmi: VirtualMachineInstance,
): Promise<string | undefined> {
  const { namespace = "" } = vmi.metadata;
  const { items } = await store.list(VIRTUAL_MACHINE_INSTANCE_MIGRATIONS, { namespace });
  return inFlightProblem(vmi, items);
}

async function validateMigration(
  { cachedReader, store }: Pick<Deps, "cachedReader" | "store">,
  request: AdmissionRequest,
): Promise<Verdict> {
  if (request.operation === "UPDATE") return validateChange(request);
  const { vmiName, priority } = asObject(asObject(request.object)["spec"]);
  const priorityDenial = findPriorityProblem(priority, request);
  if (priorityDenial !== undefined) return priorityDenial;
  const key = {
    namespace: request.namespace,
    name: typeof vmiName === "string" ? vmiName : "",
  };
  const vmi = key.name === "" ? undefined : await cachedReader.find(VIRTUAL_MACHINE_INSTANCES, key);
  const problem = migrationProblem(vmi, key);
  const message = problem ?? (vmi && (await findInFlight({ store }, vmi)));
  return message === undefined ? ALLOWED : { allowed: false, code: 400, message, causes: [] };
}

type MigrationDeps = Pick<
  Deps,
  "cachedReader" | "findByLauncher" | "evictionStrategy" | "log" | "store"
>;

/** Marks the VMI, so that virt-controller evacuates it from the node. The patch fails if the guest has left the node. */
async function markEvacuation(
  { store, log }: MigrationDeps,
  { metadata }: VirtualMachineInstance,
  nodeName: string,
): Promise<void> {
  const operations = [
    { op: "test", path: "/status/nodeName", value: nodeName },
    { op: "add", path: "/status/evacuationNodeName", value: nodeName },
  ] as const;
  const patch = { type: "json", operations } as const;
  await store.patch(VIRTUAL_MACHINE_INSTANCES, metadata, patch, { subresource: "status" });
  const vmi = `${metadata.namespace ?? ""}/${metadata.name}`;
  log.info("marked a guest for evacuation", { vmi, node: nodeName });
}

/** Validates an eviction. Denies the eviction after an error, because the API server evicts the pod if the webhook fails. */
async function validateEviction(
  deps: MigrationDeps,
  { namespace, name, dryRun }: AdmissionRequest,
): Promise<Verdict> {
  const vmi = deps.findByLauncher({ namespace, name });
  const answer = vmi && respondToEviction(vmi, name, deps.evictionStrategy());
  if (vmi === undefined || answer === undefined) return ALLOWED;
  const { evacuates, message } = answer;
  try {
    if (evacuates !== undefined && dryRun !== true) await markEvacuation(deps, vmi, evacuates);
    return { allowed: false, code: 429, message, causes: [] };
  } catch (error) {
    const reason = `VMI ${vmi.metadata.name} cannot be marked for evacuation; try again: ${messageOf(error)}`;
    return { allowed: false, code: 429, message: reason, causes: [] };
  }
}

export async function validateMigrationOrEviction(
  deps: MigrationDeps,
  request: AdmissionRequest,
): Promise<Verdict | undefined> {
  if (request.kind === EVICTION_KIND) return validateEviction(deps, request);
  if (request.kind !== VIRTUAL_MACHINE_INSTANCE_MIGRATIONS.kind) return undefined;
  return validateMigration(deps, request);
}
