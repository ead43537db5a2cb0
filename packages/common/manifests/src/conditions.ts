// SPDX-License-Identifier: Apache-2.0
// Match conditions that spare the API server calls to virt-api. Source: KEP-3716, admission webhook match conditions
import { names } from "@patchbay/api";

/** All conditions of a webhook must hold for it to be called. */
export interface MatchCondition {
  readonly name: string;
  /** CEL over `object`, `oldObject` and `request`. */
  readonly expression: string;
}

function accountName(service: string): string {
  return `'${names.SERVICE_ACCOUNT_PREFIX}${service}'`;
}

/** Finalizers and labels may change without virt-api. */
const SPEC_CHANGED: MatchCondition = {
  name: "spec-is-new",
  expression: "oldObject == null || object.spec != oldObject.spec",
};

/** Updates by these services are complete: virt-api completes a request itself, virt-controller copies it. */
const MAY_BE_INCOMPLETE: MatchCondition = {
  name: "may-lack-something",
  expression: `request.operation == 'CREATE' || !(request.userInfo.username in [${accountName("virt-api")}, ${accountName("virt-controller")}])`,
};

/** Status writes of other accounts are not checked. */
const BY_VIRT_HANDLER: MatchCondition = {
  name: "by-an-agent",
  expression: `request.userInfo.username == ${accountName("virt-handler")}`,
};

/** A label or an annotation; empty if it is missing. */
function valueExpression(object: string, place: "labels" | "annotations", key: string): string {
  const path = `${object}.metadata.${place}`;
  return `(has(${path}) && '${key}' in ${path} ? ${path}['${key}'] : '')`;
}

function isChanged(place: "labels" | "annotations", key: string): string {
  return `${valueExpression("object", place, key)} != ${valueExpression("oldObject", place, key)}`;
}

/** A launcher's requests may be written freely; only its node may write what it has. */
const NODE_DATA_CHANGED: MatchCondition = {
  name: "nodes-word-is-new",
  expression: [
    isChanged("labels", names.KUBEVIRT_LABEL),
    isChanged("annotations", names.NETWORK_STATUS_ANNOTATION),
    isChanged("annotations", names.ATTACHMENT_ERRORS_ANNOTATION),
  ].join(" || "),
};

const CONDITIONS: Readonly<Record<string, readonly MatchCondition[]>> = {
  mutate: [SPEC_CHANGED, MAY_BE_INCOMPLETE],
  validate: [SPEC_CHANGED],
  guard: [BY_VIRT_HANDLER],
  migrations: [SPEC_CHANGED],
  launcher: [NODE_DATA_CHANGED],
};

/** Conditions of the webhook with that name, for example `mutate.virt-api.patchbay.io`. */
export function buildConditions(webhook: string): readonly MatchCondition[] {
  return CONDITIONS[webhook.split(".", 1)[0] ?? ""] ?? [];
}
