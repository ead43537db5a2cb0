// SPDX-License-Identifier: Apache-2.0
// Match conditions of webhooks, which avoid unnecessary calls of virt-api. Source: KEP-3716.
import { names } from "@patchbay/api";
import type { KubeObject, WebhookConfiguration } from "@patchbay/api/kubernetes";

export interface MatchCondition {
  readonly name: string;
  /** CEL expression over `object`, `oldObject` and `request`. */
  readonly expression: string;
}

function accountExpression(service: string): string {
  return `'${names.SERVICE_ACCOUNT_PREFIX}${service}'`;
}

/** Skips updates that do not change the spec, for example changes of finalizers and labels. */
const SPEC_CHANGED: MatchCondition = {
  name: "spec-changed",
  expression: "oldObject == null || object.spec != oldObject.spec",
};

/** Skips updates by virt-api and virt-controller, which always write complete objects. */
const MAY_BE_INCOMPLETE: MatchCondition = {
  name: "may-be-incomplete",
  expression: `request.operation == 'CREATE' || !(request.userInfo.username in [${accountExpression("virt-api")}, ${accountExpression("virt-controller")}])`,
};

/** Skips requests of all accounts except virt-handler's. The webhook that has this condition checks only virt-handler's writes. */
const BY_VIRT_HANDLER: MatchCondition = {
  name: "by-virt-handler",
  expression: `request.userInfo.username == ${accountExpression("virt-handler")}`,
};

/** Returns a CEL expression for the value of a label or annotation. A missing value or object results in an empty string. */
function valueExpression(object: string, place: "labels" | "annotations", key: string): string {
  const path = `${object}.metadata.${place}`;
  return `(${object} != null && has(${path}) && '${key}' in ${path} ? ${path}['${key}'] : '')`;
}

function changeExpression(place: "labels" | "annotations", key: string): string {
  return `${valueExpression("object", place, key)} != ${valueExpression("oldObject", place, key)}`;
}

/** True if a write sets or changes metadata that only the launcher's node may write. The webhook is not called for other writes. */
const NODE_DATA_CHANGED: MatchCondition = {
  name: "node-data-changed",
  expression: [
    `oldObject != null && ${changeExpression("labels", names.KUBEVIRT_LABEL)}`,
    changeExpression("annotations", names.NETWORK_STATUS_ANNOTATION),
    changeExpression("annotations", names.ATTACHMENT_ERRORS_ANNOTATION),
    changeExpression("annotations", names.CNI_GATEWAYS_ANNOTATION),
  ].join(" || "),
};

const CONDITIONS: Readonly<Record<string, readonly MatchCondition[]>> = {
  mutate: [SPEC_CHANGED, MAY_BE_INCOMPLETE],
  validate: [SPEC_CHANGED],
  guard: [BY_VIRT_HANDLER],
  migrations: [SPEC_CHANGED],
  launcher: [NODE_DATA_CHANGED],
};

/** Returns the conditions of the webhook with this name, for example `mutate.virt-api.patchbay.io`. */
export function buildConditions(webhook: string): readonly MatchCondition[] {
  return CONDITIONS[webhook.split(".", 1)[0] ?? ""] ?? [];
}

/** Adds the conditions to the webhooks of an object, for API servers that support them. */
export function withConditions(object: KubeObject): KubeObject {
  // The cast is safe: other kinds have no webhooks.
  const { webhooks } = object as WebhookConfiguration;
  if (webhooks === undefined) return object;
  const changedWebhooks = webhooks.map((webhook) => {
    const matchConditions = buildConditions(webhook.name);
    return matchConditions.length === 0 ? webhook : { ...webhook, matchConditions };
  });
  const changed: WebhookConfiguration = { ...object, webhooks: changedWebhooks };
  return changed;
}
