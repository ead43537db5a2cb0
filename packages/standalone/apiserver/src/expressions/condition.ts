// SPDX-License-Identifier: Apache-2.0
// CEL match conditions of webhooks. Source: Kubernetes "Dynamic Admission Control", matchConditions.
import { Environment } from "@marcbachmann/cel-js";
import { messageOf } from "@patchbay/base";

/** Variables of an expression. Missing objects are null. */
export interface Variables {
  readonly object: unknown;
  readonly oldObject: unknown;
  readonly request: unknown;
}

/** Evaluates a condition. @throws Error if the evaluation fails */
export type Condition = (variables: Variables) => boolean;

const ENVIRONMENT = new Environment()
  .registerVariable("object", "dyn")
  .registerVariable("oldObject", "dyn")
  .registerVariable("request", "dyn");

/** Converts integers to bigint, because a JavaScript number is a CEL double. */
function toCel(value: unknown): unknown {
  if (typeof value === "number") return Number.isSafeInteger(value) ? BigInt(value) : value;
  if (Array.isArray(value)) return value.map(toCel);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, toCel(member)]));
}

/** Compiles a CEL expression. @throws Error if the expression is invalid or not boolean */
export function compileCondition(expression: string): Condition {
  const evaluate = ENVIRONMENT.parse(expression);
  const { valid, type, error } = evaluate.check();
  if (!valid) throw new Error(`compilation failed: ${error?.message ?? "unknown"}`);
  if (type !== "bool" && type !== "dyn") throw new Error("must evaluate to bool");
  return ({ object, oldObject, request }) => {
    // Getters convert only the variables that the expression reads. Most expressions read only `request`.
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

export function conditionFault(expression: string): string | undefined {
  try {
    compileCondition(expression);
    return undefined;
  } catch (error) {
    return messageOf(error).split("\n", 1)[0];
  }
}
