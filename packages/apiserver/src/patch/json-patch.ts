// SPDX-License-Identifier: Apache-2.0
// JSON patch: all operations or none. Source: RFC 6902.
import { type Operation, Pointer, applyPatch } from "rfc6902";
import { StatusError, badRequest } from "../meta/status.ts";
import { extentFault } from "../objects/extent.ts";
import { copyJson, isFields, printJson } from "../objects/json.ts";

const OPERATIONS = new Set(["add", "remove", "replace", "move", "copy", "test"]);
/** Keys through which a patch would reach the runtime's own objects. */
const UNSAFE = new Set(["__proto__", "constructor", "prototype"]);
/** Source: Kubernetes apiserver maxJSONPatchOperations. */
const OPERATIONS_MAX = 10_000;
/** What all copies together may add, so that a short patch makes no huge object. Source: Kubernetes apiserver JSONPatchMaxCopyBytes. */
const COPIED_MAX_BYTES = 3 * 1024 * 1024;
/** More copies could nest deeper than printing can follow. */
const COPIES_MAX = 1000;

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

/** The operations of a patch. Throws StatusErrors 400 and 413. */
export function toOperations(patch: unknown): readonly Operation[] {
  if (!Array.isArray(patch)) {
    throw badRequest(
      "error decoding patch: json: cannot unmarshal into Go value of type jsonpatch.Patch",
    );
  }
  if (patch.length > OPERATIONS_MAX) {
    const message = `Request entity too large: The allowed maximum operations in a JSON patch is ${String(OPERATIONS_MAX)}, got ${String(patch.length)}`;
    throw new StatusError({ code: 413, reason: "RequestEntityTooLarge", message });
  }
  if (!patch.every(isOperation)) {
    throw badRequest("error decoding patch: an operation has no known op or no usable path");
  }
  // Every member was checked by isOperation.
  return patch as readonly Operation[];
}

function refused(why: string): StatusError {
  const message = `the server rejected our request due to an error in our request: ${why}`;
  return new StatusError({ code: 422, reason: "Invalid", message, details: {} });
}

/** Bytes that an operation copies. */
function copiedBytes(target: unknown, operation: Operation): number {
  if (operation.op !== "copy") {
    return 0;
  }
  const value: unknown = Pointer.fromJSON(operation.from).get(target);
  return value === undefined ? 0 : Buffer.byteLength(printJson(value));
}

/** The target with the operations applied; the target is not changed. Throws a StatusError 422. */
export function applyJsonPatch(target: unknown, operations: readonly Operation[]): unknown {
  const result = copyJson(target);
  if (operations.filter(({ op }) => op === "copy").length > COPIES_MAX) {
    throw refused(`more than ${String(COPIES_MAX)} copies`);
  }
  let copied = 0;
  for (const operation of operations) {
    copied += copiedBytes(result, operation);
    if (copied > COPIED_MAX_BYTES) {
      throw refused(`copies add more than ${String(COPIED_MAX_BYTES)} bytes`);
    }
    const [error] = applyPatch(result, [copyJson(operation)]);
    if (error !== null && error !== undefined) {
      throw refused(`${error.name}: ${printJson(operation.path)}`);
    }
  }
  if (copied > 0 && extentFault(printJson(result)) !== undefined) {
    throw refused("copies nest too deep or add too much");
  }
  return result;
}
