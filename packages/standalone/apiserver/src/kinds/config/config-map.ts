// SPDX-License-Identifier: Apache-2.0
import type { Cause } from "../../meta/status.ts";
import { forbiddenValue, invalidValue, tooLongValue } from "../../meta/causes.ts";
import { equalJson, asFields } from "../../objects/json.ts";
import type { KubeObject } from "../../objects/object.ts";
import { AGE } from "../../table/age.ts";
import { type Kind, defineKind } from "../kind.ts";

/** Maximum size of all values together, 1 MiB. Source: Kubernetes core/v1 MaxSecretSize. */
const DATA_MAX_BYTES = 1_048_576;
const KEY_PATTERN = /^[-._a-zA-Z0-9]+$/;

export function dataCauses(object: KubeObject, fields: readonly string[]): Cause[] {
  let bytes = 0;
  const causes: Cause[] = [];
  for (const field of fields) {
    for (const [key, value] of Object.entries(asFields(object[field]))) {
      bytes += typeof value === "string" ? Buffer.byteLength(value) : 0;
      if (!KEY_PATTERN.test(key)) {
        causes.push(
          invalidValue(
            `${field}[${key}]`,
            key,
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')",
          ),
        );
      }
    }
  }
  return bytes > DATA_MAX_BYTES
    ? [...causes, tooLongValue(fields[0] ?? "", DATA_MAX_BYTES)]
    : causes;
}

export function immutableCauses(
  object: KubeObject,
  current: KubeObject,
  fields: readonly string[],
): Cause[] {
  if (current["immutable"] !== true) {
    return [];
  }
  const message = "field is immutable when `immutable` is set";
  const causes = fields
    .filter((field) => !equalJson(object[field] ?? {}, current[field] ?? {}))
    .map((field) => forbiddenValue(field, message));
  return object["immutable"] === true ? causes : [forbiddenValue("immutable", message), ...causes];
}

export const CONFIG_MAP: Kind = defineKind({
  group: "",
  version: "v1",
  resource: "configmaps",
  kind: "ConfigMap",
  shortNames: ["cm"],
  strategy: {
    validate: (object) => dataCauses(object, ["data", "binaryData"]),
    validateUpdate: (object, current) => immutableCauses(object, current, ["data", "binaryData"]),
    columns: [
      {
        name: "Data",
        type: "integer",
        cell: (object) =>
          Object.keys(asFields(object["data"])).length +
          Object.keys(asFields(object["binaryData"])).length,
      },
      AGE,
    ],
  },
});
