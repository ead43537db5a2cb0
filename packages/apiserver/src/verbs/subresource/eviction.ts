// SPDX-License-Identifier: Apache-2.0
// POST pods/eviction: deletes a pod; there are no disruption budgets here.
import { ADMIT_ALL } from "../../admission/admission.ts";
import { parseObject } from "../../http/body.ts";
import { fieldsOf } from "../../objects/json.ts";
import type { Call, Reply } from "../call.ts";
import { deleteOne } from "../delete.ts";
import type { VerbDeps } from "../deps.ts";
import { deleteOptionsOf } from "../options/delete-options.ts";
import { CREATED, admitBody } from "./admit-body.ts";

const EVICTION = { group: "policy", version: "v1", kind: "Eviction" };

/** Deletes the pod as the `deleteOptions` of the body say. */
export async function evictPod(call: Call, deps: VerbDeps): Promise<Reply> {
  const eviction = await admitBody(call, deps, { kind: EVICTION, body: parseObject(call.body) });
  const options = fieldsOf(eviction["deleteOptions"]);
  const body = { contentType: "application/json", text: JSON.stringify(options) };
  await deleteOne(call, { ...deps, admission: ADMIT_ALL }, deleteOptionsOf({ ...call, body }));
  return CREATED;
}
