// SPDX-License-Identifier: Apache-2.0
// JSON patch: all operations or none. Source: RFC 6902.
import { type Operation, Pointer, applyPatch } from "rfc6902";
import { StatusError, badRequest } from "../meta/status.ts";
import { extentFault } from "../objects/extent.ts";
import {
  copyJson,
  equalJson,
  fieldsOf,
  isFields,
  listOf,
  parseAsWritten,
  printJson,
} from "../objects/json.ts";

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

/** What is tested is compared as it was written. Source: evanphx/json-patch, lazyNode.equal. */
function withTestsAsWritten(operations: readonly Operation[], text: string): readonly Operation[] {
  if (!operations.some(({ op }) => op === "test")) {
    return operations;
  }
  const written = listOf(parseAsWritten(text));
  return operations.map((operation, index) =>
    operation.op === "test"
      ? { ...operation, value: fieldsOf(written[index])["value"] }
      : operation,
  );
}

/** The operations of a patch, which is what `text` says. Throws StatusErrors 400 and 413. */
export function toOperations(patch: unknown, text: string): readonly Operation[] {
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
  return withTestsAsWritten(patch as readonly Operation[], text);
}

function refused(why: string): StatusError {
  const message = `the server rejected our request due to an error in our request: ${why}`;
  return new StatusError({ code: 422, reason: "Invalid", message, details: {} });
}

const MISSING = Symbol("missing");

/** What stands at the tokens of a pointer. Only what the object itself has: the library would also find what its prototype has. */
function valueAtTokens(target: unknown, tokens: readonly string[]): unknown {
  let value = target;
  for (const token of tokens) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, token)) {
      return MISSING;
    }
    value = (value as Readonly<Record<string, unknown>>)[token];
  }
  return value;
}

/** The value that a pointer leads to, or MISSING. */
function pointedAt(target: unknown, pointer: string): unknown {
  return valueAtTokens(target, Pointer.fromJSON(pointer).tokens.slice(1));
}

/** Whether something can be put at a pointer: what it is put into is an object or a list of the target's own. */
function hasPlace(target: unknown, pointer: string): boolean {
  const into = valueAtTokens(target, Pointer.fromJSON(pointer).tokens.slice(1, -1));
  return Array.isArray(into) || isFields(into);
}

/** Bytes that an operation copies. */
function copiedBytes(target: unknown, operation: Operation): number {
  if (operation.op !== "copy") {
    return 0;
  }
  const value = pointedAt(target, operation.from);
  return value === MISSING ? 0 : Buffer.byteLength(printJson(value));
}

/** Why an operation leads nowhere; undefined when the library may perform it. */
function pathFault(target: unknown, operation: Operation): string | undefined {
  const leads =
    operation.op === "remove" || operation.op === "replace"
      ? pointedAt(target, operation.path) !== MISSING
      : hasPlace(target, operation.path) &&
        (!("from" in operation) || pointedAt(target, operation.from) !== MISSING);
  return leads ? undefined : "MissingError";
}

/** Performs one operation on the target. Returns the name of the error that says why it could not. */
function perform(target: unknown, operation: Operation): string | undefined {
  if (operation.op === "test") {
    return equalJson(pointedAt(target, operation.path), operation.value) ? undefined : "TestError";
  }
  return pathFault(target, operation) ?? applyPatch(target, [copyJson(operation)])[0]?.name;
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
    const error = perform(result, operation);
    if (error !== undefined) {
      throw refused(`${error}: ${printJson(operation.path)}`);
    }
  }
  if (copied > 0 && extentFault(printJson(result)) !== undefined) {
    throw refused("copies nest too deep or add too much");
  }
  return result;
}
