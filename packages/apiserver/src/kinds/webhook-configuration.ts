// SPDX-License-Identifier: Apache-2.0
// Configurations of admission webhooks.
import { listOf } from "../objects/json.ts";
import { AGE } from "../table/age.ts";
import { type Kind, defineKind } from "./kind.ts";

const WEBHOOK_DEFAULTS = {
  failurePolicy: "Fail",
  matchPolicy: "Equivalent",
  timeoutSeconds: 10,
  namespaceSelector: {},
  objectSelector: {},
};

function webhookKind(
  resource: string,
  kind: string,
  extra: Readonly<Record<string, unknown>>,
): Kind {
  return defineKind({
    group: "admissionregistration.k8s.io",
    version: "v1",
    resource,
    kind,
    namespaced: false,
    strategy: {
      hasGeneration: true,
      applyDefaults: (object) => {
        object["webhooks"] = listOf(object["webhooks"]).map((webhook) => ({
          ...WEBHOOK_DEFAULTS,
          ...extra,
          ...(typeof webhook === "object" ? webhook : {}),
        }));
      },
      columns: [
        { name: "Webhooks", type: "integer", cell: (object) => listOf(object["webhooks"]).length },
        AGE,
      ],
    },
  });
}

/** Configurations of mutating and of validating webhooks. */
export const WEBHOOK_CONFIGURATION_KINDS: readonly Kind[] = [
  webhookKind("mutatingwebhookconfigurations", "MutatingWebhookConfiguration", {
    reinvocationPolicy: "Never",
  }),
  webhookKind("validatingwebhookconfigurations", "ValidatingWebhookConfiguration", {}),
];
