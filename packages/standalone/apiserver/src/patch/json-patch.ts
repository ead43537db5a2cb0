// SPDX-License-Identifier: Apache-2.0
// JSON patches. Source: RFC 6902.
import { type Operation, Pointer, applyPatch } from "rfc6902";
import { StatusError, badRequest } from "../meta/status.ts";
import { extentFault } from "../objects/extent.ts";
import {
  copyJson,
  equalJson,
  asFields,
  isFields,
  asList,
  parseCanonical,
  printJson,
} from "../objects/json.ts";

const OPERATIONS = new Set(["add", "remove", "replace", "move", "copy", "test"]);
/** Keys that are rejected, to prevent prototype pollution. */
const UNSAFE_KEYS = new Set(["__proto__", "constructor", "prototype"]);
/** Maximum number of operations. Source: Kubernetes apiserver maxJSONPatchOperations. */
const OPERATIONS_MAX = 10_000;
/** Maximum size of all copied values together. Source: Kubernetes apiserver JSONPatchMaxCopyBytes. */
const COPIED_MAX_BYTES = 3 * 1024 * 1024;
/** Maximum number of copies. Each copy can increase the depth of the object, and deep objects cannot be printed. */
const COPIES_MAX = 1000;

function isPointer(value: unknown): value is string {
  return (
    typeof value === "string" &&
    (value === "" || value.startsWith("/")) &&
    !value.split("/").some((token) => UNSAFE_KEYS.has(token))
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

/** Parses the values of `test` operations so that a scalar equals only its Go encoding. Source: evanphx/json-patch, lazyNode.equal. */
function withCanonicalTests(operations: readonly Operation[], text: string): readonly Operation[] {
  if (!operations.some(({ op }) => op === "test")) {
    return operations;
  }
  const canonicalOperations = asList(parseCanonical(text));
  return operations.map((operation, index) =>
    operation.op === "test"
      ? { ...operation, value: asFields(canonicalOperations[index])["value"] }
      : operation,
  );
}

/** Parses the operations. `text` is the JSON from which `patch` was parsed. @throws StatusError 400 or 413 */
export function parseOperations(patch: unknown, text: string): readonly Operation[] {
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
  return withCanonicalTests(patch as readonly Operation[], text);
}

function invalidPatch(reason: string): StatusError {
  const message = `the server rejected our request due to an error in our request: ${reason}`;
  return new StatusError({ code: 422, reason: "Invalid", message, details: {} });
}

const MISSING = Symbol("missing");

/** Returns the value at a path, or MISSING. Unlike `Pointer.get` of the library, does not read inherited properties. */
function findValue(target: unknown, tokens: readonly string[]): unknown {
  let value = target;
  for (const token of tokens) {
    if (typeof value !== "object" || value === null || !Object.hasOwn(value, token)) {
      return MISSING;
    }
    value = (value as Readonly<Record<string, unknown>>)[token];
  }
  return value;
}

function resolvePointer(target: unknown, pointer: string): unknown {
  return findValue(target, Pointer.fromJSON(pointer).tokens.slice(1));
}

function hasParent(target: unknown, pointer: string): boolean {
  const parent = findValue(target, Pointer.fromJSON(pointer).tokens.slice(1, -1));
  return Array.isArray(parent) || isFields(parent);
}

function countCopiedBytes(target: unknown, operation: Operation): number {
  if (operation.op !== "copy") {
    return 0;
  }
  const value = resolvePointer(target, operation.from);
  return value === MISSING ? 0 : Buffer.byteLength(printJson(value));
}

function checkPaths(target: unknown, operation: Operation): string | undefined {
  const pathsExist =
    operation.op === "remove" || operation.op === "replace"
      ? resolvePointer(target, operation.path) !== MISSING
      : hasParent(target, operation.path) &&
        (!("from" in operation) || resolvePointer(target, operation.from) !== MISSING);
  return pathsExist ? undefined : "MissingError";
}

function applyOperation(target: unknown, operation: Operation): string | undefined {
  if (operation.op === "test") {
    return equalJson(resolvePointer(target, operation.path), operation.value)
      ? undefined
      : "TestError";
  }
  return checkPaths(target, operation) ?? applyPatch(target, [copyJson(operation)])[0]?.name;
}

/** Applies the operations to a copy of the target. Throws a StatusError 422 if an operation fails or copies too much. */
export function applyJsonPatch(target: unknown, operations: readonly Operation[]): unknown {
  const result = copyJson(target);
  if (operations.filter(({ op }) => op === "copy").length > COPIES_MAX) {
    throw invalidPatch(`more than ${String(COPIES_MAX)} copies`);
  }
  let copiedBytes = 0;
  for (const operation of operations) {
    copiedBytes += countCopiedBytes(result, operation);
    if (copiedBytes > COPIED_MAX_BYTES) {
      throw invalidPatch(`copies add more than ${String(COPIED_MAX_BYTES)} bytes`);
    }
    const error = applyOperation(result, operation);
    if (error !== undefined) {
      throw invalidPatch(`${error}: ${printJson(operation.path)}`);
    }
  }
  if (copiedBytes > 0 && extentFault(printJson(result)) !== undefined) {
    throw invalidPatch("copies nest too deep or add too much");
  }
  return result;
}
