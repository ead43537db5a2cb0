// SPDX-License-Identifier: Apache-2.0
// Configurations of admission webhooks.
import { type Fields, isFields, listOf, valueAt } from "../../objects/json.ts";
import { AGE } from "../../table/age.ts";
import { type Kind, defineKind } from "../kind.ts";
import { webhookConfigurationCauses } from "./webhook-causes.ts";

const DEFAULTS = {
  failurePolicy: "Fail",
  matchPolicy: "Equivalent",
  namespaceSelector: {},
  objectSelector: {},
  timeoutSeconds: 10,
};

/** Fills in what a webhook leaves out. Changes `webhook`. */
function defaultWebhook(webhook: Fields, isMutating: boolean): void {
  const defaults = { ...DEFAULTS, ...(isMutating ? { reinvocationPolicy: "Never" } : {}) };
  for (const [key, value] of Object.entries(defaults)) {
    webhook[key] ??= value;
  }
  for (const rule of listOf(webhook["rules"]).filter(isFields)) {
    rule["scope"] ??= "*";
  }
  const service = valueAt(webhook, "clientConfig", "service");
  if (isFields(service)) {
    service["port"] ??= 443;
  }
}

function webhookKind(resource: string, kind: string, isMutating: boolean): Kind {
  return defineKind({
    group: "admissionregistration.k8s.io",
    version: "v1",
    resource,
    kind,
    namespaced: false,
    categories: ["api-extensions"],
    strategy: {
      hasGeneration: true,
      applyDefaults: (object) => {
        for (const webhook of listOf(object["webhooks"]).filter(isFields)) {
          defaultWebhook(webhook, isMutating);
        }
      },
      validate: webhookConfigurationCauses,
      columns: [
        { name: "Webhooks", type: "integer", cell: (object) => listOf(object["webhooks"]).length },
        AGE,
      ],
    },
  });
}

/** Configurations of mutating and of validating webhooks. */
export const WEBHOOK_CONFIGURATION_KINDS: readonly Kind[] = [
  webhookKind("mutatingwebhookconfigurations", "MutatingWebhookConfiguration", true),
  webhookKind("validatingwebhookconfigurations", "ValidatingWebhookConfiguration", false),
];
