// SPDX-License-Identifier: Apache-2.0
// For which causes is a Service refused? Source: Kubernetes core/v1 Service, and what this machine does not do.
import { isIPv4 } from "node:net";
import type { Cause } from "../../meta/status.ts";
import {
  duplicateValue,
  forbiddenValue,
  invalidValue,
  requiredValue,
  unsupportedValue,
} from "../../meta/causes.ts";
import { subdomainFault } from "../../meta/names.ts";
import { type Fields, equalJson, fieldsOf, listOf, textAt, valueAt } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import { hasNodePorts, isHeadless, portKey } from "./service-spec.ts";

const TYPES = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const PROTOCOLS = ["TCP", "UDP"];
const AFFINITIES = ["ClientIP", "None"];
const PORT_MAX = 65_535;

function isPort(value: unknown): boolean {
  return Number.isInteger(value) && Number(value) >= 1 && Number(value) <= PORT_MAX;
}

function oneOf(field: string, value: unknown, supported: readonly string[]): readonly Cause[] {
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
  const ports = listOf(spec["ports"]);
  const seen = new Set<string>();
  const names = new Set<string>();
  return ports.flatMap((port, index) => {
    const field = `spec.ports[${String(index)}]`;
    const name = textAt(port, "name");
    const [isTwice, isNamedTwice] = [seen.has(portKey(port)), name !== "" && names.has(name)];
    seen.add(portKey(port));
    names.add(name);
    return [
      ...numberCauses(`${field}.port`, valueAt(port, "port")),
      ...targetCauses(`${field}.targetPort`, valueAt(port, "targetPort")),
      ...oneOf(`${field}.protocol`, valueAt(port, "protocol"), PROTOCOLS),
      ...(ports.length > 1 && name === "" ? [requiredValue(`${field}.name`)] : []),
      ...(isNamedTwice ? [duplicateValue(`${field}.name`, name)] : []),
      ...(isTwice ? [duplicateValue(field, port)] : []),
    ];
  });
}

function nodePortCauses(spec: Fields): readonly Cause[] {
  if (hasNodePorts(spec)) return [];
  const type = textAt(spec, "type");
  return listOf(spec["ports"]).flatMap((port, index) => {
    const field = `spec.ports[${String(index)}].nodePort`;
    const isSet = Number(valueAt(port, "nodePort") ?? 0) !== 0;
    return isSet ? [forbiddenValue(field, `may not be used when \`type\` is '${type}'`)] : [];
  });
}

function addressCauses(spec: Fields): readonly Cause[] {
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

function nameCauses(spec: Fields): readonly Cause[] {
  if (textAt(spec, "type") !== "ExternalName") return [];
  const name = textAt(spec, "externalName").replace(/\.$/, "");
  if (name === "") return [requiredValue("spec.externalName")];
  const fault = subdomainFault(name);
  return fault === undefined ? [] : [invalidValue("spec.externalName", name, fault)];
}

/** Who may write a Service could else take what others send to any address of the world (CVE-2020-8554). */
function foreignCauses(spec: Fields): readonly Cause[] {
  if (listOf(spec["externalIPs"]).length === 0) return [];
  const why = "this machine takes nothing that is meant for other addresses; use type NodePort";
  return [forbiddenValue("spec.externalIPs", why)];
}

function familyCauses(spec: Fields): readonly Cause[] {
  return [
    ...listOf(spec["ipFamilies"]).flatMap((family, index) =>
      oneOf(`spec.ipFamilies[${String(index)}]`, family, ["IPv4"]),
    ),
    ...oneOf("spec.ipFamilyPolicy", spec["ipFamilyPolicy"], ["SingleStack", "PreferDualStack"]),
  ];
}

/** All causes at once. */
export function serviceCauses(service: KubeObject): readonly Cause[] {
  const spec = fieldsOf(service["spec"]);
  const needsPorts = !isHeadless(spec) && textAt(spec, "type") !== "ExternalName";
  const hasNone = needsPorts && listOf(spec["ports"]).length === 0;
  return [
    ...(hasNone ? [requiredValue("spec.ports")] : []),
    ...oneOf("spec.type", spec["type"], TYPES),
    ...oneOf("spec.sessionAffinity", spec["sessionAffinity"], AFFINITIES),
    ...portCauses(spec),
    ...nodePortCauses(spec),
    ...addressCauses(spec),
    ...nameCauses(spec),
    ...foreignCauses(spec),
    ...familyCauses(spec),
  ];
}

/** The address is given once; only as an ExternalName a Service has none. */
export function addressChangeCauses(service: KubeObject, current: KubeObject): readonly Cause[] {
  const types = [service, current].map((object) => textAt(object, "spec", "type"));
  if (types.includes("ExternalName")) return [];
  return ["clusterIP", "clusterIPs"].flatMap((key) => {
    const was = valueAt(current, "spec", key);
    const is = valueAt(service, "spec", key);
    const field = key === "clusterIPs" ? "spec.clusterIPs[0]" : "spec.clusterIP";
    if (was === undefined || equalJson(was, is)) return [];
    return [invalidValue(field, is, "may not change once set")];
  });
}
