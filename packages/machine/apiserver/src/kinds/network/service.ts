// SPDX-License-Identifier: Apache-2.0
// What is particular to services: defaults, the cluster address, ports.
import { dns1035Fault } from "../../meta/names.ts";
import { type Fields, fieldsOf, isFields, listOf, textAt, valueAt } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import { AGE } from "../../table/age.ts";
import { type Kind, defineKind } from "../kind.ts";
import { selectorText } from "../selector.ts";
import { addressChangeCauses, serviceCauses } from "./service-causes.ts";
import { claimForService } from "./service-claims.ts";
import { hasNodePorts, nodePortOf } from "./service-spec.ts";

/** Source: Kubernetes core/v1 ClientIPConfig. */
const AFFINITY_SECONDS = 10_800;
/** Fields that a Service without an address does not have. */
const OF_ADDRESS = [
  "clusterIP",
  "clusterIPs",
  "ipFamilies",
  "ipFamilyPolicy",
  "internalTrafficPolicy",
];

function defaultPort(port: Fields): void {
  port["protocol"] ??= "TCP";
  port["targetPort"] ??= port["port"];
}

function applyDefaults(service: KubeObject): void {
  const spec = fieldsOf(service["spec"]);
  service["spec"] = spec;
  spec["type"] ??= "ClusterIP";
  spec["sessionAffinity"] ??= "None";
  if (spec["sessionAffinity"] === "ClientIP")
    spec["sessionAffinityConfig"] ??= { clientIP: { timeoutSeconds: AFFINITY_SECONDS } };
  if (spec["type"] === "LoadBalancer") spec["allocateLoadBalancerNodePorts"] ??= true;
  if (hasNodePorts(spec)) spec["externalTrafficPolicy"] ??= "Cluster";
  listOf(spec["ports"]).filter(isFields).forEach(defaultPort);
}

/** What goes with the address; an ExternalName has neither. */
function defaultAddress(spec: Fields): void {
  if (textAt(spec, "type") === "ExternalName") {
    for (const key of OF_ADDRESS) Reflect.deleteProperty(spec, key);
    return;
  }
  if (textAt(spec, "clusterIP") !== "") spec["clusterIPs"] = [spec["clusterIP"]];
  spec["ipFamilies"] ??= ["IPv4"];
  spec["ipFamilyPolicy"] ??= "SingleStack";
  spec["internalTrafficPolicy"] ??= "Cluster";
}

function prepareCreate(service: KubeObject): void {
  service["status"] = { loadBalancer: {} };
  defaultAddress(fieldsOf(service["spec"]));
}

/** Whoever makes a Service of another type does not speak of the ports that the old one had. */
function dropNodePorts(spec: Fields, current: KubeObject): void {
  if (hasNodePorts(spec)) return;
  const old = listOf(valueAt(current, "spec", "ports")).map(nodePortOf);
  for (const port of listOf(spec["ports"]).filter(isFields)) {
    if (old.includes(nodePortOf(port))) Reflect.deleteProperty(port, "nodePort");
  }
  if (valueAt(current, "spec", "externalTrafficPolicy") === spec["externalTrafficPolicy"])
    Reflect.deleteProperty(spec, "externalTrafficPolicy");
}

/** What the client leaves out stays as it was given. */
function prepareUpdate(service: KubeObject, current: KubeObject): void {
  const spec = fieldsOf(service["spec"]);
  for (const key of OF_ADDRESS) {
    const was = valueAt(current, "spec", key);
    if (was !== undefined && (spec[key] ?? "") === "") spec[key] = was;
  }
  dropNodePorts(spec, current);
  // Given addresses are compared before they are completed.
  if (textAt(spec, "type") === "ExternalName" || spec["clusterIPs"] === undefined)
    defaultAddress(spec);
}

function portsCell(service: KubeObject): string {
  const ports = listOf(valueAt(service, "spec", "ports")).map((port) => {
    const nodePort = nodePortOf(port) === 0 ? "" : `:${String(nodePortOf(port))}`;
    return `${String(valueAt(port, "port"))}${nodePort}/${textAt(port, "protocol")}`;
  });
  return ports.length === 0 ? "<none>" : ports.join(",");
}

function externalCell(service: KubeObject): string {
  const type = textAt(service, "spec", "type");
  if (type === "ExternalName") return textAt(service, "spec", "externalName");
  return type === "LoadBalancer" ? "<pending>" : "<none>";
}

const NO_BALANCER =
  "nothing on this machine gives addresses to Services of type LoadBalancer: it is reached at its cluster address, and at a port of this machine as one of type NodePort is";

function warnings(service: KubeObject): readonly string[] {
  return textAt(service, "spec", "type") === "LoadBalancer" ? [NO_BALANCER] : [];
}

/** Addresses and ports are given here; service-net forwards what is sent to them. */
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
    validate: serviceCauses,
    validateUpdate: addressChangeCauses,
    claim: claimForService,
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
      { name: "External-IP", type: "string", cell: externalCell },
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
