// SPDX-License-Identifier: Apache-2.0
// For which causes is a CustomResourceDefinition refused? Source: apiextensions/v1 validation.
import type { Cause } from "../meta/status.ts";
import { invalidValue, requiredValue, unsupportedValue } from "../meta/causes.ts";
import { dns1035Fault } from "../meta/names.ts";
import { type Fields, fieldsOf, isFields, listOf, textAt, valueAt } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import { schemaCauses } from "../schema/structural-causes.ts";
import { defaultCauses } from "./default-causes.ts";
import { conversionCauses } from "./not-supported.ts";

const COLUMN_TYPES: readonly string[] = ["boolean", "date", "integer", "number", "string"];

function rootCauses(schema: Fields, path: string): Cause[] {
  const { type } = schema;
  if (type === undefined || type === "") {
    return [requiredValue(`${path}.type`, "must not be empty at the root")];
  }
  return type === "object"
    ? []
    : [invalidValue(`${path}.type`, type, "must be object at the root")];
}

function columnCauses(version: Fields, path: string): Cause[] {
  return listOf(version["additionalPrinterColumns"]).flatMap((column, index) => {
    const field = `${path}.additionalPrinterColumns[${String(index)}]`;
    const type = textAt(column, "type");
    const missing = ["name", "jsonPath"].filter((key) => textAt(column, key) === "");
    return [
      ...missing.map((key) => requiredValue(`${field}.${key}`)),
      ...(COLUMN_TYPES.includes(type)
        ? []
        : [unsupportedValue(`${field}.type`, type, COLUMN_TYPES)]),
    ];
  });
}

function scaleCauses(version: Fields, path: string): Cause[] {
  const scale = valueAt(version, "subresources", "scale");
  if (!isFields(scale)) {
    return [];
  }
  const roots = [
    ["specReplicasPath", ".spec."],
    ["statusReplicasPath", ".status."],
  ] as const;
  return roots.flatMap(([key, root]) => {
    const field = `${path}.subresources.scale.${key}`;
    const given = textAt(scale, key);
    if (given === "") {
      return [requiredValue(field)];
    }
    return given.startsWith(root)
      ? []
      : [invalidValue(field, given, `should be a json path under ${root.slice(0, -1)}`)];
  });
}

function versionCauses(version: Fields, index: number): Cause[] {
  const field = `spec.versions[${String(index)}]`;
  const schema = valueAt(version, "schema", "openAPIV3Schema");
  if (!isFields(schema)) {
    return [requiredValue(`${field}.schema.openAPIV3Schema`, "schemas are required")];
  }
  const path = `${field}.schema.openAPIV3Schema`;
  const structural = [...rootCauses(schema, path), ...schemaCauses(schema, path)];
  return [
    ...(structural.length > 0 ? structural : defaultCauses(schema, path)),
    ...columnCauses(version, field),
    ...scaleCauses(version, field),
  ];
}

/** Each version has a name of its own. */
function versionNameCauses(versions: readonly Fields[]): Cause[] {
  const names = versions.map((version) => textAt(version, "name"));
  const faults = names.flatMap((name, index) => {
    const fault = dns1035Fault(name);
    const field = `spec.versions[${String(index)}].name`;
    return fault === undefined ? [] : [invalidValue(field, name, fault)];
  });
  const twice = new Set(names).size !== names.length;
  return twice
    ? [...faults, invalidValue("spec.versions", names, "must contain unique version names")]
    : faults;
}

/** A version in which objects are stored cannot go before they are. */
function storedCauses(definition: KubeObject, versions: readonly Fields[]): Cause[] {
  return listOf(valueAt(definition, "status", "storedVersions")).flatMap((stored, index) =>
    versions.some((version) => version["name"] === stored)
      ? []
      : [
          invalidValue(
            `status.storedVersions[${String(index)}]`,
            stored,
            "must appear in spec.versions",
          ),
        ],
  );
}

function groupCauses(definition: KubeObject): Cause[] {
  const group = textAt(definition, "spec", "group");
  const annotations = definition.metadata.annotations ?? {};
  const isProtected = /(^|\.)(k8s|kubernetes)\.io$/.test(group);
  return isProtected && annotations["api-approved.kubernetes.io"] === undefined
    ? [
        requiredValue(
          "metadata.annotations[api-approved.kubernetes.io]",
          'protected groups must have approval annotation "api-approved.kubernetes.io", see https://github.com/kubernetes/enhancements/pull/1111',
        ),
      ]
    : [];
}

function namesCauses(definition: KubeObject): Cause[] {
  const spec = fieldsOf(definition["spec"]);
  const expected = `${textAt(spec, "names", "plural")}.${textAt(spec, "group")}`;
  const scope = textAt(spec, "scope");
  return [
    ...(definition.metadata.name === expected
      ? []
      : [
          invalidValue(
            "metadata.name",
            definition.metadata.name,
            'must be spec.names.plural+"."+spec.group',
          ),
        ]),
    ...(textAt(spec, "names", "kind") === "" ? [requiredValue("spec.names.kind")] : []),
    ...(scope === "Namespaced" || scope === "Cluster"
      ? []
      : [unsupportedValue("spec.scope", scope, ["Cluster", "Namespaced"])]),
  ];
}

/** Every cause for which a definition is refused. */
export function definitionCauses(definition: KubeObject): Cause[] {
  const spec = fieldsOf(definition["spec"]);
  const versions = listOf(spec["versions"]).map(fieldsOf);
  const stored = versions.filter((version) => version["storage"] === true).length;
  return [
    ...namesCauses(definition),
    ...groupCauses(definition),
    ...(stored === 1
      ? []
      : [
          invalidValue(
            "spec.versions",
            versions.map((version) => version["name"]),
            "must have exactly one version marked as storage version",
          ),
        ]),
    ...(spec["preserveUnknownFields"] === true
      ? [invalidValue("spec.preserveUnknownFields", true, "must be false")]
      : []),
    ...versionNameCauses(versions),
    ...storedCauses(definition, versions),
    ...conversionCauses(definition),
    ...versions.flatMap(versionCauses),
  ];
}

/** Every cause for which a change of a definition is refused. */
export function definitionChange(definition: KubeObject, current: KubeObject): Cause[] {
  const fixed = [["scope"], ["group"], ["names", "kind"], ["names", "plural"]];
  return fixed.flatMap((path) => {
    const is = valueAt(definition, "spec", ...path);
    return is === valueAt(current, "spec", ...path)
      ? []
      : [invalidValue(`spec.${path.join(".")}`, is, "field is immutable")];
  });
}
