// SPDX-License-Identifier: Apache-2.0
// Is an APIService allowed? Source: apiregistration/v1.
import type { Cause } from "../../meta/status.ts";
import { invalidValue, requiredValue } from "../../meta/causes.ts";
import { dns1035Fault, pathSegmentFault, subdomainFault } from "../../meta/names.ts";
import { isFields, textAt, valueAt } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import { portCauses } from "./service-reference-causes.ts";

const GROUP_PRIORITY_MAX = 20_000;
const VERSION_PRIORITY_MAX = 1000;

function faultCauses(field: string, value: string, fault: string | undefined): Cause[] {
  return fault === undefined ? [] : [invalidValue(field, value, fault)];
}

function nameCauses(object: KubeObject, group: string, version: string): Cause[] {
  const { name } = object.metadata;
  const wanted = `${version}.${group}`;
  return name === wanted || name === "" || pathSegmentFault(name) !== undefined
    ? []
    : [invalidValue("metadata.name", name, `must be \`spec.version+"."+spec.group\`: "${wanted}"`)];
}

function priorityCauses(spec: unknown, key: string, maximum: number): Cause[] {
  const value = Number(valueAt(spec, key) ?? 0);
  return value > 0 && value <= maximum
    ? []
    : [invalidValue(`spec.${key}`, value, `must be positive and less than ${String(maximum)}`)];
}

function localCauses(caBundle: string, isInsecure: boolean): Cause[] {
  const bytes = `${String(Buffer.from(caBundle, "base64").length)} bytes`;
  return [
    ...(caBundle === ""
      ? []
      : [invalidValue("spec.caBundle", bytes, "local APIServices may not have a caBundle")]),
    ...(isInsecure
      ? [
          invalidValue(
            "spec.insecureSkipTLSVerify",
            true,
            "local APIServices may not have insecureSkipTLSVerify",
          ),
        ]
      : []),
  ];
}

function remoteCauses(service: unknown, caBundle: string, isInsecure: boolean): Cause[] {
  const missing = (["namespace", "name"] as const)
    .filter((key) => textAt(service, key) === "")
    .map((key) => requiredValue(`spec.service.${key}`));
  return [
    ...missing,
    ...portCauses(service, "spec.service"),
    ...(isInsecure && caBundle !== ""
      ? [invalidValue("spec.insecureSkipTLSVerify", true, "may not be true if caBundle is present")]
      : []),
  ];
}

/** Causes for which an APIService is refused. */
export function apiServiceCauses(object: KubeObject): Cause[] {
  const { spec } = object;
  const group = textAt(spec, "group");
  const version = textAt(spec, "version");
  const service = valueAt(spec, "service");
  const caBundle = textAt(spec, "caBundle");
  const isInsecure = valueAt(spec, "insecureSkipTLSVerify") === true;
  return [
    ...nameCauses(object, group, version),
    ...(group === "" && version !== "v1"
      ? [
          requiredValue(
            "spec.group",
            "only v1 may have an empty group and it better be legacy kube",
          ),
        ]
      : []),
    ...faultCauses("spec.group", group, group === "" ? undefined : subdomainFault(group)),
    ...faultCauses("spec.version", version, dns1035Fault(version)),
    ...priorityCauses(spec, "groupPriorityMinimum", GROUP_PRIORITY_MAX),
    ...priorityCauses(spec, "versionPriority", VERSION_PRIORITY_MAX),
    ...(isFields(service)
      ? remoteCauses(service, caBundle, isInsecure)
      : localCauses(caBundle, isInsecure)),
  ];
}
