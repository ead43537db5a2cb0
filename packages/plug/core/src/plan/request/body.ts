// SPDX-License-Identifier: Apache-2.0
// The body of a request that need have none.
import { isJsonObject, type JsonObject } from "@patchbay/api";
import { toRefusal, type Parsed } from "./nic-plan.ts";

/** Its members; none where there is no body. Members that are not known are left alone, as KubeVirt does. */
export function membersOf(body: unknown): Parsed<JsonObject> {
  if (body === undefined || body === null) return { ok: true, value: {} };
  if (isJsonObject(body)) return { ok: true, value: body };
  const message = "cannot unmarshal Request body to struct, error: it is no object";
  return { ok: false, refusal: toRefusal(400, [], message) };
}
