// SPDX-License-Identifier: Apache-2.0
// Do a webhook's match conditions hold of a write? Source: KEP-3716, admission webhook match conditions.
import { messageOf } from "@patchbay/core/errors";
import type { Variables } from "../../expressions/condition.ts";
import type { Kind } from "../../kinds/kind.ts";
import { fieldsOf } from "../../objects/json.ts";
import type { AdmissionQuestion } from "../admission.ts";
import { toReview } from "./review.ts";
import type { MatchCondition, Webhook } from "./webhook.ts";

function variablesOf(question: AdmissionQuestion, as: Kind): Variables {
  const { request } = toReview(question, { as, uid: "", version: "v1" });
  const { object, oldObject, ...rest } = fieldsOf(request);
  return { object, oldObject, request: rest };
}

function tryCondition({ name, holds }: MatchCondition, variables: Variables): boolean | Error {
  try {
    return holds(variables);
  } catch (error) {
    return new Error(`matchConditions[${name}]: ${messageOf(error)}`);
  }
}

/** Whether all of them hold; one that does not decides, whatever cannot be told of others. An error where that decides. */
export function meetsConditions(
  { conditions }: Pick<Webhook, "conditions">,
  question: AdmissionQuestion,
  as: Kind,
): boolean | Error {
  if (conditions.length === 0) return true;
  const variables = variablesOf(question, as);
  const results = conditions.map((condition) => tryCondition(condition, variables));
  if (results.includes(false)) return false;
  return results.find((result) => result instanceof Error) ?? true;
}
