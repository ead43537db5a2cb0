// SPDX-License-Identifier: Apache-2.0
// Validation of CustomResourceDefinitions. Source: apiextensions/v1 validation.
import { forbiddenValue, invalidValue, requiredValue, unsupportedValue } from "../meta/causes.ts";
import { dns1035Fault } from "../meta/names.ts";
import type { Cause } from "../meta/status.ts";
import { type Fields, asFields, isFields, asList, textAt, valueAt } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import { type Schema, itemSchema, schemaCauses } from "../schema/structural.ts";
import { makeValidator } from "../schema/validator.ts";

function ownDefaultCauses(schema: Schema, path: string): Cause[] {
  if (schema["default"] === undefined) {
    return [];
  }
  const wrapperSchema: Fields = { type: "object", properties: { default: schema } };
  return makeValidator(wrapperSchema)({ default: schema["default"] }).map((cause) =>
    invalidValue(`${path}.default`, schema["default"], cause.message),
  );
}

function defaultCauses(schema: Schema, path: string): Cause[] {
  const items = itemSchema(schema);
  const { additionalProperties } = schema;
  return [
    ...ownDefaultCauses(schema, path),
    ...Object.entries(asFields(schema["properties"])).flatMap(([key, property]) =>
      defaultCauses(asFields(property), `${path}.properties[${key}]`),
    ),
    ...(items === undefined ? [] : defaultCauses(items, `${path}.items`)),
    ...(isFields(additionalProperties)
      ? defaultCauses(additionalProperties, `${path}.additionalProperties`)
      : []),
  ];
}

const VALIDATIONS_FIELD = "x-kubernetes-validations";
const WARNED_FIELDS_MAX = 5;
const STRATEGIES: readonly string[] = ["None", "Webhook"];

function fieldsWithRules(schema: Schema, path: string): string[] {
  const items = itemSchema(schema);
  const { additionalProperties } = schema;
  return [
    ...(asList(schema[VALIDATIONS_FIELD]).length === 0 ? [] : [path === "" ? "." : path]),
    ...Object.entries(asFields(schema["properties"])).flatMap(([key, property]) =>
      fieldsWithRules(asFields(property), `${path}.${key}`),
    ),
    ...(items === undefined ? [] : fieldsWithRules(items, `${path}[*]`)),
    ...(isFields(additionalProperties) ? fieldsWithRules(additionalProperties, `${path}.*`) : []),
  ];
}

function ruleWarnings(version: Fields, index: number): string[] {
  const fields = fieldsWithRules(asFields(valueAt(version, "schema", "openAPIV3Schema")), "");
  if (fields.length === 0) {
    return [];
  }
  const hiddenCount = fields.length - WARNED_FIELDS_MAX;
  const namedFields =
    fields.slice(0, WARNED_FIELDS_MAX).join(", ") +
    (hiddenCount > 0 ? ` and ${String(hiddenCount)} more` : "");
  return [
    `spec.versions[${String(index)}].schema.openAPIV3Schema: this server does not evaluate ${VALIDATIONS_FIELD} (CEL); values are not checked by the rules of ${namedFields}`,
  ];
}

function listVersions(definition: KubeObject): Fields[] {
  return asList(valueAt(definition, "spec", "versions")).map(asFields);
}

export function definitionWarnings(definition: KubeObject): readonly string[] {
  const versions = listVersions(definition);
  const isWebhook = textAt(definition, "spec", "conversion", "strategy") === "Webhook";
  return [
    ...versions.flatMap(ruleWarnings),
    ...(isWebhook && versions.length === 1
      ? [
          "spec.conversion: this server does not call conversion webhooks; with one version none is needed",
        ]
      : []),
  ];
}

/** Rejects unknown strategies, and strategy Webhook if there are several versions, because this server calls no conversion webhooks. */
function conversionCauses(definition: KubeObject): readonly Cause[] {
  const strategy = textAt(definition, "spec", "conversion", "strategy");
  const field = "spec.conversion.strategy";
  if (!STRATEGIES.includes(strategy)) {
    return [unsupportedValue(field, strategy, STRATEGIES)];
  }
  return strategy === "Webhook" && listVersions(definition).length > 1
    ? [
        forbiddenValue(
          field,
          "this server does not call conversion webhooks; a definition with several versions needs strategy None",
        ),
      ]
    : [];
}

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
  return asList(version["additionalPrinterColumns"]).flatMap((column, index) => {
    const field = `${path}.additionalPrinterColumns[${String(index)}]`;
    const type = textAt(column, "type");
    const missingKeys = ["name", "jsonPath"].filter((key) => textAt(column, key) === "");
    return [
      ...missingKeys.map((key) => requiredValue(`${field}.${key}`)),
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
    const jsonPath = textAt(scale, key);
    if (jsonPath === "") {
      return [requiredValue(field)];
    }
    return jsonPath.startsWith(root)
      ? []
      : [invalidValue(field, jsonPath, `should be a json path under ${root.slice(0, -1)}`)];
  });
}

function versionCauses(version: Fields, index: number): Cause[] {
  const field = `spec.versions[${String(index)}]`;
  const schema = valueAt(version, "schema", "openAPIV3Schema");
  if (!isFields(schema)) {
    return [requiredValue(`${field}.schema.openAPIV3Schema`, "schemas are required")];
  }
  const path = `${field}.schema.openAPIV3Schema`;
  const structuralCauses = [...rootCauses(schema, path), ...schemaCauses(schema, path)];
  return [
    ...(structuralCauses.length > 0 ? structuralCauses : defaultCauses(schema, path)),
    ...columnCauses(version, field),
    ...scaleCauses(version, field),
  ];
}

function versionNameCauses(versions: readonly Fields[]): Cause[] {
  const names = versions.map((version) => textAt(version, "name"));
  const faults = names.flatMap((name, index) => {
    const fault = dns1035Fault(name);
    const field = `spec.versions[${String(index)}].name`;
    return fault === undefined ? [] : [invalidValue(field, name, fault)];
  });
  const hasDuplicates = new Set(names).size !== names.length;
  return hasDuplicates
    ? [...faults, invalidValue("spec.versions", names, "must contain unique version names")]
    : faults;
}

/** Rejects the removal of a stored version, because objects may still be stored in it. */
function storedCauses(definition: KubeObject, versions: readonly Fields[]): Cause[] {
  return asList(valueAt(definition, "status", "storedVersions")).flatMap((stored, index) =>
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
  const spec = asFields(definition["spec"]);
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

export function definitionCauses(definition: KubeObject): Cause[] {
  const spec = asFields(definition["spec"]);
  const versions = asList(spec["versions"]).map(asFields);
  const storageVersionCount = versions.filter((version) => version["storage"] === true).length;
  return [
    ...namesCauses(definition),
    ...groupCauses(definition),
    ...(storageVersionCount === 1
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

export function definitionUpdateCauses(definition: KubeObject, current: KubeObject): Cause[] {
  const immutablePaths = [["scope"], ["group"], ["names", "kind"], ["names", "plural"]];
  return immutablePaths.flatMap((path) => {
    const value = valueAt(definition, "spec", ...path);
    return value === valueAt(current, "spec", ...path)
      ? []
      : [invalidValue(`spec.${path.join(".")}`, value, "field is immutable")];
  });
}
