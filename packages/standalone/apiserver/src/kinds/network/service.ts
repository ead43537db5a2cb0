// SPDX-License-Identifier: Apache-2.0
// Defaults and validation of Services, without features that Patchbay lacks. Source: Kubernetes core/v1 Service.
import { isIPv4 } from "node:net";
import { dns1035Fault, subdomainFault } from "../../meta/names.ts";
import {
  type Fields,
  equalJson,
  asFields,
  isFields,
  asList,
  textAt,
  valueAt,
} from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import { AGE } from "../../table/age.ts";
import { type Kind, defineKind } from "../kind.ts";
import { printSelector } from "../selector.ts";
import type { Cause } from "../../meta/status.ts";
import {
  duplicateValue,
  forbiddenValue,
  invalidValue,
  requiredValue,
  unsupportedValue,
} from "../../meta/causes.ts";
import {
  allocateForService,
  hasNodePorts,
  isHeadless,
  nodePortOf,
  portKey,
} from "./service-allocation.ts";

const TYPES = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const PROTOCOLS = ["TCP", "UDP"];
const AFFINITIES = ["ClientIP", "None"];
const PORT_MAX = 65_535;

function isPort(value: unknown): boolean {
  return Number.isInteger(value) && Number(value) >= 1 && Number(value) <= PORT_MAX;
}

function allowedValueCauses(
  field: string,
  value: unknown,
  supported: readonly string[],
): readonly Cause[] {
  if (value === undefined || (typeof value === "string" && supported.includes(value))) return [];
  return [unsupportedValue(field, value, supported)];
}

function numberCauses(field: string, value: unknown): readonly Cause[] {
  if (isPort(value)) return [];
  return [invalidValue(field, value ?? 0, "must be between 1 and 65535, inclusive")];
}

function targetCauses(field: string, value: unknown): readonly Cause[] {
  return typeof value === "string" ? [] : numberCauses(field, value);
}

function portCauses(spec: Fields): readonly Cause[] {
  const ports = asList(spec["ports"]);
  const seenPorts = new Set<string>();
  const seenNames = new Set<string>();
  return ports.flatMap((port, index) => {
    const field = `spec.ports[${String(index)}]`;
    const name = textAt(port, "name");
    const [isDuplicate, isDuplicateName] = [
      seenPorts.has(portKey(port)),
      name !== "" && seenNames.has(name),
    ];
    seenPorts.add(portKey(port));
    seenNames.add(name);
    return [
      ...numberCauses(`${field}.port`, valueAt(port, "port")),
      ...targetCauses(`${field}.targetPort`, valueAt(port, "targetPort")),
      ...allowedValueCauses(`${field}.protocol`, valueAt(port, "protocol"), PROTOCOLS),
      ...(ports.length > 1 && name === "" ? [requiredValue(`${field}.name`)] : []),
      ...(isDuplicateName ? [duplicateValue(`${field}.name`, name)] : []),
      ...(isDuplicate ? [duplicateValue(field, port)] : []),
    ];
  });
}

function nodePortCauses(spec: Fields): readonly Cause[] {
  if (hasNodePorts(spec)) return [];
  const type = textAt(spec, "type");
  return asList(spec["ports"]).flatMap((port, index) => {
    const field = `spec.ports[${String(index)}].nodePort`;
    const isSet = Number(valueAt(port, "nodePort") ?? 0) !== 0;
    return isSet ? [forbiddenValue(field, `may not be used when \`type\` is '${type}'`)] : [];
  });
}

function clusterIPCauses(spec: Fields): readonly Cause[] {
  const address = textAt(spec, "clusterIP");
  const field = "spec.clusterIPs[0]";
  if (textAt(spec, "type") === "ExternalName") return [];
  if (isHeadless(spec)) {
    const type = textAt(spec, "type");
    if (type === "ClusterIP") return [];
    return [invalidValue(field, address, `may not be set to 'None' for ${type} services`)];
  }
  if (address === "" || isIPv4(address)) return [];
  return [invalidValue(field, address, "must be a valid IPv4 address, or None")];
}

function externalNameCauses(spec: Fields): readonly Cause[] {
  if (textAt(spec, "type") !== "ExternalName") return [];
  const name = textAt(spec, "externalName").replace(/\.$/, "");
  if (name === "") return [requiredValue("spec.externalName")];
  const fault = subdomainFault(name);
  return fault === undefined ? [] : [invalidValue("spec.externalName", name, fault)];
}

/** Rejects externalIPs: a user who may write Services could intercept traffic to any address (CVE-2020-8554). */
function externalIPCauses(spec: Fields): readonly Cause[] {
  if (asList(spec["externalIPs"]).length === 0) return [];
  const message = "this machine does not accept traffic for other addresses; use type NodePort";
  return [forbiddenValue("spec.externalIPs", message)];
}

function familyCauses(spec: Fields): readonly Cause[] {
  return [
    ...asList(spec["ipFamilies"]).flatMap((family, index) =>
      allowedValueCauses(`spec.ipFamilies[${String(index)}]`, family, ["IPv4"]),
    ),
    ...allowedValueCauses("spec.ipFamilyPolicy", spec["ipFamilyPolicy"], [
      "SingleStack",
      "PreferDualStack",
    ]),
  ];
}

function serviceCauses(service: KubeObject): readonly Cause[] {
  const spec = asFields(service["spec"]);
  const needsPorts = !isHeadless(spec) && textAt(spec, "type") !== "ExternalName";
  const lacksPorts = needsPorts && asList(spec["ports"]).length === 0;
  return [
    ...(lacksPorts ? [requiredValue("spec.ports")] : []),
    ...allowedValueCauses("spec.type", spec["type"], TYPES),
    ...allowedValueCauses("spec.sessionAffinity", spec["sessionAffinity"], AFFINITIES),
    ...portCauses(spec),
    ...nodePortCauses(spec),
    ...clusterIPCauses(spec),
    ...externalNameCauses(spec),
    ...externalIPCauses(spec),
    ...familyCauses(spec),
  ];
}

/** Rejects a change of the cluster IP, unless the Service is or becomes an ExternalName. */
function clusterIPChangeCauses(service: KubeObject, current: KubeObject): readonly Cause[] {
  const types = [service, current].map((object) => textAt(object, "spec", "type"));
  if (types.includes("ExternalName")) return [];
  return ["clusterIP", "clusterIPs"].flatMap((key) => {
    const currentValue = valueAt(current, "spec", key);
    const newValue = valueAt(service, "spec", key);
    const field = key === "clusterIPs" ? "spec.clusterIPs[0]" : "spec.clusterIP";
    if (currentValue === undefined || equalJson(currentValue, newValue)) return [];
    return [invalidValue(field, newValue, "may not change once set")];
  });
}

/** Default timeout of session affinity. Source: Kubernetes core/v1 ClientIPConfig. */
const AFFINITY_TIMEOUT_SECONDS = 10_800;
const CLUSTER_IP_FIELDS = [
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
  const spec = asFields(service["spec"]);
  service["spec"] = spec;
  spec["type"] ??= "ClusterIP";
  spec["sessionAffinity"] ??= "None";
  if (spec["sessionAffinity"] === "ClientIP")
    spec["sessionAffinityConfig"] ??= { clientIP: { timeoutSeconds: AFFINITY_TIMEOUT_SECONDS } };
  if (spec["type"] === "LoadBalancer") spec["allocateLoadBalancerNodePorts"] ??= true;
  if (hasNodePorts(spec)) spec["externalTrafficPolicy"] ??= "Cluster";
  asList(spec["ports"]).filter(isFields).forEach(defaultPort);
}

function defaultAddressFields(spec: Fields): void {
  if (textAt(spec, "type") === "ExternalName") {
    for (const key of CLUSTER_IP_FIELDS) Reflect.deleteProperty(spec, key);
    return;
  }
  if (textAt(spec, "clusterIP") !== "") spec["clusterIPs"] = [spec["clusterIP"]];
  spec["ipFamilies"] ??= ["IPv4"];
  spec["ipFamilyPolicy"] ??= "SingleStack";
  spec["internalTrafficPolicy"] ??= "Cluster";
}

function prepareCreate(service: KubeObject): void {
  service["status"] = { loadBalancer: {} };
  defaultAddressFields(asFields(service["spec"]));
}

/** If the new Service type has no node ports, drops node ports and externalTrafficPolicy that the client copied from the current object. */
function dropNodePorts(spec: Fields, current: KubeObject): void {
  if (hasNodePorts(spec)) return;
  const currentNodePorts = new Set(asList(valueAt(current, "spec", "ports")).map(nodePortOf));
  for (const port of asList(spec["ports"]).filter(isFields)) {
    if (currentNodePorts.has(nodePortOf(port))) Reflect.deleteProperty(port, "nodePort");
  }
  if (valueAt(current, "spec", "externalTrafficPolicy") === spec["externalTrafficPolicy"])
    Reflect.deleteProperty(spec, "externalTrafficPolicy");
}

function prepareUpdate(service: KubeObject, current: KubeObject): void {
  const spec = asFields(service["spec"]);
  for (const key of CLUSTER_IP_FIELDS) {
    const currentValue = valueAt(current, "spec", key);
    if (currentValue !== undefined && (spec[key] ?? "") === "") spec[key] = currentValue;
  }
  dropNodePorts(spec, current);
  // Does not derive clusterIPs if the client sent a list, so that the validation can reject a changed list.
  if (textAt(spec, "type") === "ExternalName" || spec["clusterIPs"] === undefined)
    defaultAddressFields(spec);
}

function portsCell(service: KubeObject): string {
  const ports = asList(valueAt(service, "spec", "ports")).map((port) => {
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

const NO_LOAD_BALANCER =
  "no controller on this machine assigns addresses to Services of type LoadBalancer: the Service is reachable at its cluster IP and, like type NodePort, at a port of this machine";

function warnings(service: KubeObject): readonly string[] {
  return textAt(service, "spec", "type") === "LoadBalancer" ? [NO_LOAD_BALANCER] : [];
}

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
    validateUpdate: clusterIPChangeCauses,
    claim: allocateForService,
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
          printSelector({ matchLabels: valueAt(service, "spec", "selector") }) || "<none>",
      },
    ],
  },
});
