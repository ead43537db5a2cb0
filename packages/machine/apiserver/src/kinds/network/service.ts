// SPDX-License-Identifier: Apache-2.0
// What is particular to services: defaults, the cluster address, ports.
import type { Cause } from "../../meta/status.ts";
import { duplicateValue, invalidValue, requiredValue } from "../../meta/causes.ts";
import { dns1035Fault } from "../../meta/names.ts";
import {
  type Fields,
  equalJson,
  fieldsOf,
  isFields,
  listOf,
  textAt,
  valueAt,
} from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import { AGE } from "../../table/age.ts";
import { keptWarning } from "../kept/kept-kind.ts";
import { type Kind, defineKind } from "../kind.ts";
import { selectorText } from "../selector.ts";

function defaultPort(port: Fields): void {
  port["protocol"] ??= "TCP";
  port["targetPort"] ??= port["port"];
}

function applyDefaults(service: KubeObject): void {
  const spec = fieldsOf(service["spec"]);
  service["spec"] = spec;
  spec["type"] ??= "ClusterIP";
  spec["sessionAffinity"] ??= "None";
  listOf(spec["ports"]).filter(isFields).forEach(defaultPort);
}

/** Gives every service an address of its own in 10.96.0.0/12, from its uid. */
function prepareCreate(service: KubeObject): void {
  service["status"] = { loadBalancer: {} };
  const spec = fieldsOf(service["spec"]);
  if (textAt(spec, "type") === "ExternalName") {
    return;
  }
  if (textAt(spec, "clusterIP") === "") {
    const seed = Number.parseInt((service.metadata.uid ?? "0").slice(0, 8), 16);
    const host = (seed % 0xf_fffe) + 1;
    spec["clusterIP"] =
      `10.${String(96 + (host >> 16))}.${String((host >> 8) & 0xff)}.${String(host & 0xff)}`;
  }
  spec["clusterIPs"] = [spec["clusterIP"]];
  spec["ipFamilies"] ??= ["IPv4"];
  spec["ipFamilyPolicy"] ??= "SingleStack";
  spec["internalTrafficPolicy"] ??= "Cluster";
}

function portCauses(spec: Fields): Cause[] {
  const ports = listOf(spec["ports"]);
  const seen = new Set<string>();
  return ports.flatMap((port, index) => {
    const field = `spec.ports[${String(index)}]`;
    const number = Number(valueAt(port, "port"));
    const causes: Cause[] = [];
    if (!(number >= 1 && number <= 65_535)) {
      causes.push(
        invalidValue(
          `${field}.port`,
          valueAt(port, "port") ?? 0,
          "must be between 1 and 65535, inclusive",
        ),
      );
    }
    if (ports.length > 1 && textAt(port, "name") === "") {
      causes.push(requiredValue(`${field}.name`));
    }
    const key = `${textAt(port, "protocol")}/${String(number)}`;
    if (seen.has(key)) {
      causes.push(duplicateValue(field, port));
    }
    seen.add(key);
    return causes;
  });
}

function validate(service: KubeObject): Cause[] {
  const spec = fieldsOf(service["spec"]);
  const needsPorts =
    textAt(spec, "clusterIP") !== "None" && textAt(spec, "type") !== "ExternalName";
  const none =
    needsPorts && listOf(spec["ports"]).length === 0 ? [requiredValue("spec.ports")] : [];
  return [...none, ...portCauses(spec)];
}

/** Source: Kubernetes core/v1 Service: the address is given once. */
function validateUpdate(service: KubeObject, current: KubeObject): Cause[] {
  return ["clusterIP", "clusterIPs"].flatMap((key) => {
    const was = valueAt(current, "spec", key);
    const is = valueAt(service, "spec", key);
    const field = key === "clusterIPs" ? "spec.clusterIPs[0]" : "spec.clusterIP";
    return was === undefined || equalJson(was, is)
      ? []
      : [invalidValue(field, is, "may not change once set")];
  });
}

/** What the client leaves out stays as it was given. */
function prepareUpdate(service: KubeObject, current: KubeObject): void {
  const spec = fieldsOf(service["spec"]);
  const keys = ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"];
  for (const key of keys) {
    spec[key] ??= valueAt(current, "spec", key);
  }
}

function portsCell(service: KubeObject): string {
  const ports = listOf(valueAt(service, "spec", "ports")).map(
    (port) => `${String(valueAt(port, "port"))}/${textAt(port, "protocol")}`,
  );
  return ports.length === 0 ? "<none>" : ports.join(",");
}

/** The server itself finds webhooks and aggregated servers by Services whose endpoints are given. */
function isForServer(service: KubeObject): boolean {
  const selector = fieldsOf(valueAt(service, "spec", "selector"));
  const type = textAt(service, "spec", "type") || "ClusterIP"; // defaults come later
  return type === "ClusterIP" && Object.keys(selector).length === 0;
}

const INSTEAD =
  "from this machine a VM is reached at its pod's address, from elsewhere on a NIC in a network of this machine's own";

function warnings(service: KubeObject): readonly string[] {
  return isForServer(service) ? [] : [keptWarning("Service", INSTEAD)];
}

/** Addresses of the cluster are given and kept; nothing here forwards to them. */
export const SERVICE: Kind = defineKind({
  group: "",
  version: "v1",
  resource: "services",
  kind: "Service",
  shortNames: ["svc"],
  categories: ["all"],
  strategy: {
    returnsDeleted: true,
    hasStatus: true,
    validateName: dns1035Fault,
    applyDefaults,
    prepareCreate,
    prepareUpdate,
    validate,
    validateUpdate,
    warnings,
    selectableFields: {
      "spec.clusterIP": (service) => textAt(service, "spec", "clusterIP"),
      "spec.type": (service) => textAt(service, "spec", "type"),
    },
    columns: [
      { name: "Type", type: "string", cell: (service) => textAt(service, "spec", "type") },
      {
        name: "Cluster-IP",
        type: "string",
        cell: (service) => textAt(service, "spec", "clusterIP") || "<none>",
      },
      { name: "External-IP", type: "string", cell: () => "<none>" },
      { name: "Port(s)", type: "string", cell: portsCell },
      AGE,
      {
        name: "Selector",
        type: "string",
        priority: 1,
        cell: (service) =>
          selectorText({ matchLabels: valueAt(service, "spec", "selector") }) || "<none>",
      },
    ],
  },
});
