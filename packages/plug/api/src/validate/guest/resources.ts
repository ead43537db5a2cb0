// SPDX-License-Identifier: Apache-2.0
// How much of the node a VM may ask for. Source: KubeVirt vmi-create-admitter, rules on requests and limits.
import type { Cause } from "../../kinds/kubernetes/meta.ts";
import { parseQuantity } from "../../values/quantity.ts";
import { causeIf, type JudgedSpec, type Rule } from "../rule.ts";

/** Bytes; less is taken for a forgotten unit. Source: KubeVirt validateMemoryRequestsNegativeOrNull. */
const MEMORY_MIN_BYTES = 1e6;

/** An amount with its field and as it was written. */
interface Amount {
  readonly field: string;
  readonly text: string;
  /** 0 where nothing is said, or what is said cannot be read, which another rule refuses. */
  readonly value: number;
}

function amountOf(field: string, quantity: unknown): Amount {
  const value = quantity === undefined ? 0 : (parseQuantity(quantity) ?? 0);
  return { field, text: String(quantity), value };
}

function amountsOf({ spec, base }: JudgedSpec, resource: "cpu" | "memory") {
  const path = `${base}.domain.resources`;
  // The limits of a VM are amounts, like its requests.
  const { requests, limits } = (spec.domain.resources ?? {}) as Readonly<
    Record<"requests" | "limits", Readonly<Record<string, unknown>> | undefined>
  >;
  return {
    request: amountOf(`${path}.requests.${resource}`, requests?.[resource]),
    limit: amountOf(`${path}.limits.${resource}`, limits?.[resource]),
  };
}

function exceeds(request: Amount, limit: Amount): readonly Cause[] {
  return causeIf(limit.value > 0 && request.value > limit.value, {
    reason: "FieldValueInvalid",
    field: request.field,
    message: `${request.field} '${request.text}' is greater than ${limit.field} '${limit.text}'`,
  });
}

const cpuIsInLimit: Rule = (judged) => {
  const { request, limit } = amountsOf(judged, "cpu");
  return exceeds(request, limit);
};

const memoryIsInLimit: Rule = (judged) => {
  const { request, limit } = amountsOf(judged, "memory");
  const isTooSmall = request.value > 0 && request.value < MEMORY_MIN_BYTES;
  return [
    ...causeIf(isTooSmall, {
      reason: "FieldValueInvalid",
      field: request.field,
      message: `${request.field} '${request.text}': must be greater than or equal to 1M.`,
    }),
    ...exceeds(request, limit),
  ];
};

const guestIsInLimit: Rule = (judged) => {
  const { limit } = amountsOf(judged, "memory");
  const field = `${judged.base}.domain.memory.guest`;
  const guest = amountOf(field, judged.spec.domain.memory?.guest);
  return causeIf(limit.value > 0 && guest.value > limit.value, {
    reason: "FieldValueInvalid",
    field,
    message: `${field} '${guest.text}' must be equal to or less than the memory limit ${limit.field} '${limit.text}'`,
  });
};

/** Judges requests and limits. */
export const RESOURCE_RULES: readonly Rule[] = [memoryIsInLimit, guestIsInLimit, cpuIsInLimit];
