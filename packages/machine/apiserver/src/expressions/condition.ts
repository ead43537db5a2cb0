// SPDX-License-Identifier: Apache-2.0
// What does a match condition say of a write? Expressions of CEL over the object, the object before, and the request.
// Source: Kubernetes "Dynamic Admission Control", matching requests: matchConditions.
import { Environment } from "@marcbachmann/cel-js";
import { messageOf } from "@patchbay/core/errors";

/** What an expression may speak of; null where there is none. Integers of all sizes are CEL's `int`. */
export interface Variables {
  readonly object: unknown;
  readonly oldObject: unknown;
  /** An AdmissionRequest without its objects. */
  readonly request: unknown;
}

/** Says whether the condition holds. Throws where the expression finds another shape than it expects. */
export type Condition = (variables: Variables) => boolean;

const ENVIRONMENT = new Environment()
  .registerVariable("object", "dyn")
  .registerVariable("oldObject", "dyn")
  .registerVariable("request", "dyn");

/** JSON as CEL has it: an integer is no double there. */
function toCel(value: unknown): unknown {
  if (typeof value === "number") return Number.isSafeInteger(value) ? BigInt(value) : value;
  if (Array.isArray(value)) return value.map(toCel);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, toCel(member)]));
}

/**
 * Compiles an expression.
 * @throws Error that says where it is wrong, in one line
 */
export function compileCondition(expression: string): Condition {
  const evaluate = ENVIRONMENT.parse(expression);
  const { valid, type, error } = evaluate.check();
  if (!valid) throw new Error(`compilation failed: ${error?.message ?? "unknown"}`);
  if (type !== "bool" && type !== "dyn") throw new Error("must evaluate to bool");
  return ({ object, oldObject, request }) => {
    // Most expressions speak of the request only, which is the smallest of the three.
    const result: unknown = evaluate({
      get object() {
        return toCel(object);
      },
      get oldObject() {
        return toCel(oldObject);
      },
      get request() {
        return toCel(request);
      },
    });
    if (typeof result !== "boolean") throw new Error("must evaluate to bool");
    return result;
  };
}

/** Why the expression is none; undefined where it is one. */
export function conditionFault(expression: string): string | undefined {
  try {
    compileCondition(expression);
    return undefined;
  } catch (error) {
    return messageOf(error).split("\n", 1)[0];
  }
}
