// SPDX-License-Identifier: Apache-2.0
// What of a definition does this server not do? What can be ignored is told; what would spoil data is refused.
import type { Cause } from "../meta/status.ts";
import { forbiddenValue, unsupportedValue } from "../meta/causes.ts";
import { type Fields, fieldsOf, isFields, listOf, textAt, valueAt } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import { type Schema, itemSchema } from "../schema/structural.ts";

const RULES = "x-kubernetes-validations";
/** A warning names so many fields. */
const NAMED_MAX = 5;
const STRATEGIES: readonly string[] = ["None", "Webhook"];

/** Paths of the fields that have rules, below `path`. */
function ruled(schema: Schema, path: string): string[] {
  const items = itemSchema(schema);
  const { additionalProperties } = schema;
  return [
    ...(listOf(schema[RULES]).length === 0 ? [] : [path === "" ? "." : path]),
    ...Object.entries(fieldsOf(schema["properties"])).flatMap(([key, property]) =>
      ruled(fieldsOf(property), `${path}.${key}`),
    ),
    ...(items === undefined ? [] : ruled(items, `${path}[*]`)),
    ...(isFields(additionalProperties) ? ruled(additionalProperties, `${path}.*`) : []),
  ];
}

function ruleWarnings(version: Fields, index: number): string[] {
  const fields = ruled(fieldsOf(valueAt(version, "schema", "openAPIV3Schema")), "");
  if (fields.length === 0) {
    return [];
  }
  const more = fields.length - NAMED_MAX;
  const named =
    fields.slice(0, NAMED_MAX).join(", ") + (more > 0 ? ` and ${String(more)} more` : "");
  return [
    `spec.versions[${String(index)}].schema.openAPIV3Schema: this server does not evaluate ${RULES} (CEL); values are not checked by the rules of ${named}`,
  ];
}

function versionsOf(definition: KubeObject): Fields[] {
  return listOf(valueAt(definition, "spec", "versions")).map(fieldsOf);
}

/** What a client is told that writes this definition. */
export function definitionWarnings(definition: KubeObject): readonly string[] {
  const versions = versionsOf(definition);
  const hook = textAt(definition, "spec", "conversion", "strategy") === "Webhook";
  return [
    ...versions.flatMap(ruleWarnings),
    ...(hook && versions.length === 1
      ? [
          "spec.conversion: this server calls no conversion webhooks; with one version it needs none",
        ]
      : []),
  ];
}

/** Causes for which a definition is refused because objects would be handed out unconverted. */
export function conversionCauses(definition: KubeObject): readonly Cause[] {
  const strategy = textAt(definition, "spec", "conversion", "strategy");
  const field = "spec.conversion.strategy";
  if (!STRATEGIES.includes(strategy)) {
    return [unsupportedValue(field, strategy, STRATEGIES)];
  }
  return strategy === "Webhook" && versionsOf(definition).length > 1
    ? [
        forbiddenValue(
          field,
          "this server calls no conversion webhooks; a definition with several versions needs strategy None",
        ),
      ]
    : [];
}
