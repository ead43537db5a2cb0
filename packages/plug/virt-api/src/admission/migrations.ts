// SPDX-License-Identifier: Apache-2.0
// Whether a migration may be stored, and a launcher pod evicted; both are about leaving a node.
import {
  VIRTUAL_MACHINE_INSTANCE_MIGRATIONS,
  VIRTUAL_MACHINE_INSTANCES,
  type VirtualMachineInstance,
} from "@patchbay/api";
import { evictionProblem, inFlightProblem, isEqual, migrationProblem } from "@patchbay/core";
import type { Deps } from "../deps.ts";
import { ALLOWED, fieldsOf, toVerdict, type AdmissionRequest, type Verdict } from "./review.ts";

/** Source: Kubernetes policy/v1 Eviction. */
const EVICTION = "Eviction";

function judgeChange({ object, oldObject }: AdmissionRequest): Verdict {
  if (isEqual(fieldsOf(object)["spec"], fieldsOf(oldObject)["spec"])) return ALLOWED;
  const message = "update of Migration object's spec is restricted";
  return toVerdict([{ reason: "FieldValueNotSupported", field: "spec", message }]);
}

/** Asked of the server each time: a cache may not know yet of one that was made a moment ago. */
async function findInFlight(
  { store }: Pick<Deps, "store">,
  vmi: VirtualMachineInstance,
): Promise<string | undefined> {
  const { namespace = "" } = vmi.metadata;
  const { items } = await store.list(VIRTUAL_MACHINE_INSTANCE_MIGRATIONS, { namespace });
  return inFlightProblem(vmi, items);
}

async function judgeMigration(
  { known, store }: Pick<Deps, "known" | "store">,
  request: AdmissionRequest,
): Promise<Verdict> {
  if (request.operation === "UPDATE") return judgeChange(request);
  const { vmiName } = fieldsOf(fieldsOf(request.object)["spec"]);
  const key = {
    namespace: request.namespace,
    name: typeof vmiName === "string" ? vmiName : "",
  };
  const vmi = key.name === "" ? undefined : await known.find(VIRTUAL_MACHINE_INSTANCES, key);
  const problem = migrationProblem(vmi, key);
  const message = problem ?? (vmi && (await findInFlight({ store }, vmi)));
  return message === undefined ? ALLOWED : { allowed: false, code: 400, message, causes: [] };
}

function judgeEviction(
  { findByLauncher, evictionStrategy }: Pick<Deps, "findByLauncher" | "evictionStrategy">,
  { namespace, name }: AdmissionRequest,
): Verdict {
  const vmi = findByLauncher({ namespace, name });
  const message = vmi && evictionProblem(vmi, name, evictionStrategy());
  return message === undefined ? ALLOWED : { allowed: false, code: 429, message, causes: [] };
}

/** The verdict on a migration or an eviction; undefined for anything else. */
export async function judgeLeaving(
  deps: Pick<Deps, "known" | "store" | "findByLauncher" | "evictionStrategy">,
  request: AdmissionRequest,
): Promise<Verdict | undefined> {
  if (request.kind === EVICTION) return judgeEviction(deps, request);
  if (request.kind !== VIRTUAL_MACHINE_INSTANCE_MIGRATIONS.kind) return undefined;
  return judgeMigration(deps, request);
}
