// SPDX-License-Identifier: Apache-2.0
import { dns1035Fault, pathSegmentFault, subdomainFault } from "../../meta/names.ts";
import { isFields, asList, textAt, valueAt } from "../../objects/json.ts";
import { AGE } from "../../table/age.ts";
import { type Kind, defineKind } from "../kind.ts";
import type { Cause } from "../../meta/status.ts";
import { invalidValue, requiredValue } from "../../meta/causes.ts";
import type { KubeObject } from "../../objects/object.ts";
import { portCauses } from "./client-config.ts";

const GROUP_PRIORITY_MAX = 20_000;
const VERSION_PRIORITY_MAX = 1000;

function faultCauses(field: string, value: string, fault: string | undefined): Cause[] {
  return fault === undefined ? [] : [invalidValue(field, value, fault)];
}

function nameCauses(object: KubeObject, group: string, version: string): Cause[] {
  const { name } = object.metadata;
  const expected = `${version}.${group}`;
  return name === expected || name === "" || pathSegmentFault(name) !== undefined
    ? []
    : [
        invalidValue(
          "metadata.name",
          name,
          `must be \`spec.version+"."+spec.group\`: "${expected}"`,
        ),
      ];
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
  const missingFields = (["namespace", "name"] as const)
    .filter((key) => textAt(service, key) === "")
    .map((key) => requiredValue(`spec.service.${key}`));
  return [
    ...missingFields,
    ...portCauses(service, "spec.service"),
    ...(isInsecure && caBundle !== ""
      ? [invalidValue("spec.insecureSkipTLSVerify", true, "may not be true if caBundle is present")]
      : []),
  ];
}

function apiServiceCauses(object: KubeObject): Cause[] {
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

/** Kind APIService. Without `spec.service`, an APIService describes a group version of this server. */
export const API_SERVICE: Kind = defineKind({
  group: "apiregistration.k8s.io",
  version: "v1",
  resource: "apiservices",
  kind: "APIService",
  namespaced: false,
  categories: ["api-extensions"],
  strategy: {
    hasStatus: true,
    validateName: pathSegmentFault,
    applyDefaults: (object) => {
      const service = valueAt(object, "spec", "service");
      if (isFields(service)) {
        service["port"] ??= 443;
      }
    },
    validate: apiServiceCauses,
    columns: [
      {
        name: "Service",
        type: "string",
        cell: (object) =>
          textAt(object, "spec", "service", "name") === ""
            ? "Local"
            : `${textAt(object, "spec", "service", "namespace")}/${textAt(object, "spec", "service", "name")}`,
      },
      {
        name: "Available",
        type: "string",
        cell: (object) => {
          const availableCondition = asList(valueAt(object, "status", "conditions")).find(
            (condition) => textAt(condition, "type") === "Available",
          );
          const status = textAt(availableCondition, "status");
          return status === "True"
            ? "True"
            : `${status || "Unknown"} (${textAt(availableCondition, "reason")})`;
        },
      },
      AGE,
    ],
  },
});
