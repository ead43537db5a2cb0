// SPDX-License-Identifier: Apache-2.0
// JSON patch: all operations or none. Source: RFC 6902.
import { type Operation, applyPatch } from "rfc6902";
import { StatusError, badRequest } from "../http/status.ts";
import { copyJson, isFields, printJson } from "../objects/json.ts";

const OPERATIONS = new Set(["add", "remove", "replace", "move", "copy", "test"]);
/** Keys through which a patch would reach the runtime's own objects. */
const UNSAFE = new Set(["__proto__", "constructor", "prototype"]);
/** Source: Kubernetes apiserver maxJSONPatchOperations. */
const OPERATIONS_MAX = 10_000;

function isPointer(value: unknown): value is string {
  return (
    typeof value === "string" &&
    (value === "" || value.startsWith("/")) &&
    !value.split("/").some((token) => UNSAFE.has(token))
  );
}

function isOperation(value: unknown): boolean {
  return (
    isFields(value) &&
    OPERATIONS.has(String(value["op"])) &&
    isPointer(value["path"]) &&
    (value["from"] === undefined || isPointer(value["from"]))
  );
}

/** The operations of a patch. Throws a StatusError 400. */
export function toOperations(patch: unknown): readonly Operation[] {
  if (!Array.isArray(patch) || !patch.every(isOperation)) {
    throw badRequest(
      "error decoding patch: json: cannot unmarshal into Go value of type jsonpatch.Patch",
    );
  }
  if (patch.length > OPERATIONS_MAX) {
    throw badRequest(`The allowed maximum operations in a JSON patch is ${String(OPERATIONS_MAX)}`);
  }
  // Every member was checked by isOperation.
  return patch as readonly Operation[];
}

/** The target with the operations applied; the target is not changed. Throws a StatusError 422. */
export function applyJsonPatch(target: unknown, operations: readonly Operation[]): unknown {
  const result = copyJson(target);
  for (const operation of operations) {
    const [error] = applyPatch(result, [copyJson(operation)]);
    if (error !== null && error !== undefined) {
      const message = `the server rejected our request due to an error in our request: ${error.name}: ${printJson(operation.path)}`;
      throw new StatusError({ code: 422, reason: "Invalid", message, details: {} });
    }
  }
  return result;
}
