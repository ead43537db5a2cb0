// SPDX-License-Identifier: Apache-2.0
// Ingresses, network policies and endpoint slices, as objects: nothing here acts on them. Source: Kubernetes networking.k8s.io/v1, discovery.k8s.io/v1.
import type { Cause } from "../../meta/status.ts";
import { invalidValue, requiredValue, unsupportedValue } from "../../meta/causes.ts";
import { type Fields, asText, fieldsOf, listOf, textAt, valueAt } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import { AGE } from "../../table/age.ts";
import { type Kind, defineKind } from "../kind.ts";
import { itemsOf } from "../workload/pod-defaults.ts";
import { selectorCauses, selectorText } from "../selector.ts";

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

const NETWORK_POLICY: Kind = defineKind({
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

const ENDPOINT_SLICE: Kind = defineKind({
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

const PATH_TYPES: readonly string[] = ["Exact", "ImplementationSpecific", "Prefix"];

function pathCauses(rule: Fields, index: number): Cause[] {
  return itemsOf(fieldsOf(rule["http"]), "paths").flatMap((path, at) => {
    const field = `spec.rules[${String(index)}].http.paths[${String(at)}].pathType`;
    const type = textAt(path, "pathType");
    if (type === "") {
      return [requiredValue(field, "pathType must be specified")];
    }
    return PATH_TYPES.includes(type) ? [] : [unsupportedValue(field, type, PATH_TYPES)];
  });
}

function validateIngress(ingress: KubeObject): Cause[] {
  const spec = fieldsOf(ingress["spec"]);
  const rules = itemsOf(spec, "rules");
  return rules.length === 0 && spec["defaultBackend"] === undefined
    ? [invalidValue("spec", spec, "either `defaultBackend` or `rules` must be specified")]
    : rules.flatMap(pathCauses);
}

function hostsCell(ingress: KubeObject): string {
  const hosts = itemsOf(fieldsOf(ingress["spec"]), "rules").map((rule) => textAt(rule, "host"));
  return hosts.filter((host) => host !== "").join(",") || "*";
}

function addressCell(ingress: KubeObject): string {
  return itemsOf(fieldsOf(valueAt(ingress, "status", "loadBalancer")), "ingress")
    .map((at) => textAt(at, "ip") || textAt(at, "hostname"))
    .join(",");
}

const INGRESS: Kind = defineKind({
  group: "networking.k8s.io",
  version: "v1",
  resource: "ingresses",
  kind: "Ingress",
  singular: "ingress",
  shortNames: ["ing"],
  strategy: {
    hasStatus: true,
    hasGeneration: true,
    prepareCreate: (ingress) => {
      ingress["status"] = { loadBalancer: {} };
    },
    validate: validateIngress,
    columns: [
      {
        name: "Class",
        type: "string",
        cell: (ingress) => textAt(ingress, "spec", "ingressClassName") || "<none>",
      },
      { name: "Hosts", type: "string", cell: hostsCell },
      { name: "Address", type: "string", cell: addressCell },
      {
        name: "Ports",
        type: "string",
        cell: (ingress) =>
          listOf(valueAt(ingress, "spec", "tls")).length === 0 ? "80" : "80, 443",
      },
      AGE,
    ],
  },
});

/** Ingresses, network policies, endpoint slices. */
export const NETWORK_KINDS: readonly Kind[] = [ENDPOINT_SLICE, INGRESS, NETWORK_POLICY];
