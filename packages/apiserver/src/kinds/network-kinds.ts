// SPDX-License-Identifier: Apache-2.0
// Network policies and endpoint slices, as objects: nothing here enforces or fills them. Source: Kubernetes networking.k8s.io/v1, discovery.k8s.io/v1.
import type { Cause } from "../http/status.ts";
import { invalidValue, requiredValue, unsupportedValue } from "../meta/causes.ts";
import { asText, fieldsOf, listOf, textAt, valueAt } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import { AGE } from "../table/age.ts";
import { type Kind, defineKind } from "./kind.ts";
import { itemsOf } from "./pod-defaults.ts";
import { selectorCauses, selectorText } from "./selector.ts";

function defaultPolicy(policy: KubeObject): void {
  const spec = fieldsOf(policy["spec"]);
  policy["spec"] = spec;
  spec["podSelector"] ??= {};
  spec["policyTypes"] ??= ["Ingress", ...(listOf(spec["egress"]).length === 0 ? [] : ["Egress"])];
  for (const rule of [...itemsOf(spec, "ingress"), ...itemsOf(spec, "egress")]) {
    for (const port of itemsOf(rule, "ports")) {
      port["protocol"] ??= "TCP";
    }
  }
}

/** Network policies. */
export const NETWORK_POLICY: Kind = defineKind({
  group: "networking.k8s.io",
  version: "v1",
  resource: "networkpolicies",
  kind: "NetworkPolicy",
  singular: "networkpolicy",
  shortNames: ["netpol"],
  strategy: {
    hasGeneration: true,
    applyDefaults: defaultPolicy,
    validate: (policy) =>
      selectorCauses(valueAt(policy, "spec", "podSelector"), "spec.podSelector"),
    columns: [
      {
        name: "Pod-Selector",
        type: "string",
        cell: (policy) => selectorText(valueAt(policy, "spec", "podSelector")) || "<none>",
      },
      AGE,
    ],
  },
});

const ADDRESS_TYPES: readonly string[] = ["FQDN", "IPv4", "IPv6"];
/** How many of a list a cell shows. Source: Kubernetes printers. */
const SHOWN_MAX = 3;

function validateSlice(slice: KubeObject): Cause[] {
  const type = textAt(slice, "addressType");
  const empty = itemsOf(slice, "endpoints").flatMap((endpoint, index) =>
    listOf(endpoint["addresses"]).length === 0
      ? [requiredValue(`endpoints[${String(index)}].addresses`, "must contain at least 1 address")]
      : [],
  );
  if (type === "") {
    return [requiredValue("addressType"), ...empty];
  }
  return ADDRESS_TYPES.includes(type)
    ? empty
    : [unsupportedValue("addressType", type, ADDRESS_TYPES), ...empty];
}

function shortened(texts: readonly string[], none: string): string {
  const rest = texts.length - SHOWN_MAX;
  const shown = texts.slice(0, SHOWN_MAX).join(",");
  return texts.length === 0 ? none : rest > 0 ? `${shown} + ${String(rest)} more...` : shown;
}

/** Endpoint slices. */
export const ENDPOINT_SLICE: Kind = defineKind({
  group: "discovery.k8s.io",
  version: "v1",
  resource: "endpointslices",
  kind: "EndpointSlice",
  strategy: {
    hasGeneration: true,
    applyDefaults: (slice) => {
      slice["endpoints"] ??= [];
      for (const port of itemsOf(slice, "ports")) {
        port["name"] ??= "";
        port["protocol"] ??= "TCP";
      }
    },
    validate: validateSlice,
    validateUpdate: (slice, current) =>
      slice["addressType"] === current["addressType"]
        ? []
        : [invalidValue("addressType", slice["addressType"], "field is immutable")],
    columns: [
      { name: "AddressType", type: "string", cell: (slice) => textAt(slice, "addressType") },
      {
        name: "Ports",
        type: "string",
        cell: (slice) =>
          shortened(
            itemsOf(slice, "ports").map((port) => asText(port["port"] ?? "*")),
            "<unset>",
          ),
      },
      {
        name: "Endpoints",
        type: "string",
        cell: (slice) =>
          shortened(
            itemsOf(slice, "endpoints").map((endpoint) => String(listOf(endpoint["addresses"])[0])),
            "<unset>",
          ),
      },
      AGE,
    ],
  },
});
