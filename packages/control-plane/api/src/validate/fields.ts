// SPDX-License-Identifier: Apache-2.0
// Checks of fields against their schema: unsupported fields, malformed quantities and wrong types.
import { IfaceSchema, isAbsent, type Iface } from "../kinds/network.ts";
import { VmSpecSchema, type VmSpec } from "../kinds/vm.ts";
import { VmiSpecSchema, type VmiSpec } from "../kinds/vmi-spec.ts";
import { type FieldMark, isUnset } from "../fields/notation.ts";
import {
  listSchemaFields,
  listUnsupportedFields,
  withoutHarmlessFields,
  type SchemaField,
  type UnsupportedField,
  listQuantities,
} from "../fields/walk.ts";
import { ifacePath } from "./rule.ts";
import { describeLimitProblem, findSpecBeyondLimit } from "../limits.ts";
import type { Cause } from "../kinds/kubernetes/meta.ts";
import { memoize, memoizeAt } from "../values/memoize.ts";
import { parseQuantity } from "../values/quantity.ts";
import { isJsonObject, type JsonObject } from "../values/json.ts";

/** Problem of a field. `message` is the rest of a sentence that starts with `field`. */
export interface FieldProblem {
  readonly field: string;
  readonly message: string;
}

export interface UnsupportedFields {
  readonly unbuilt: readonly FieldProblem[];
  readonly harmless: readonly string[];
}

function buildUnbuiltMessage({ hint }: FieldMark): string {
  return ["is not supported yet", hint ?? []].flat().join("; ");
}

function splitByMark(fields: readonly UnsupportedField[]): UnsupportedFields {
  return {
    unbuilt: fields
      .filter(({ mark }) => mark.level === "unbuilt")
      .map(({ path, mark }) => ({ field: path, message: buildUnbuiltMessage(mark) })),
    harmless: fields.filter(({ mark }) => mark.level === "harmless").map(({ path }) => path),
  };
}

/** Drops the fields of absent interfaces, and splits the other fields into `unbuilt` and `harmless`. `base` is the path of `spec`. */
function withoutAbsentIfaces(
  fields: readonly UnsupportedField[],
  spec: VmiSpec,
  base: string,
): UnsupportedFields {
  const ifaces = spec.domain.devices?.interfaces ?? [];
  const absentPaths = new Set(
    ifaces.flatMap((iface, index) => (isAbsent(iface) ? [ifacePath(base, index)] : [])),
  );
  const indexPosition = ifacePath(base, 0).length - "0]".length;
  const isAbsentPath = (path: string): boolean =>
    absentPaths.has(path.slice(0, path.indexOf("]", indexPosition) + 1));
  return splitByMark(fields.filter(({ path }) => !isAbsentPath(path)));
}

export const listUnsupportedVmiFields: (spec: VmiSpec, base: string) => UnsupportedFields =
  memoizeAt((spec, base) =>
    withoutAbsentIfaces(listUnsupportedFields(VmiSpecSchema, spec, base), spec, base),
  );

export const listUnsupportedVmFields: (spec: VmSpec) => UnsupportedFields = memoize((spec) => {
  const fields = listUnsupportedFields(VmSpecSchema, spec, "spec");
  return withoutAbsentIfaces(fields, spec.template.spec, "spec.template.spec");
});

export const effectiveVmiSpec: (spec: VmiSpec) => VmiSpec = memoize(
  // The cast is safe, because all removed fields are optional in a VmiSpec.
  (spec) => withoutHarmlessFields(VmiSpecSchema, { ...spec }) as unknown as VmiSpec,
);

export function listVmFields(): readonly SchemaField[] {
  return listSchemaFields(VmSpecSchema, "spec");
}

/** Returns the interface's first unsupported field that keeps the VM from starting, with a path relative to the interface. */
export function findUnbuiltField(iface: Iface): FieldProblem | undefined {
  return splitByMark(listUnsupportedFields(IfaceSchema, iface, "")).unbuilt[0];
}

function isNegative(text: string): boolean {
  return text.startsWith("-") && parseQuantity(text.slice(1)) !== undefined;
}

export const findMalformedQuantities: (spec: VmiSpec, base: string) => readonly FieldProblem[] =
  memoizeAt((spec, base) =>
    listQuantities(VmiSpecSchema, spec, base)
      .filter(({ value }) => !isUnset(value) && parseQuantity(value) === undefined)
      .map(({ path, value }) => {
        const text = String(value);
        const message = isNegative(text)
          ? `${path} '${text}': must be greater than or equal to 0.`
          : `${text} is not a quantity; write, for example, 128Mi`;
        return { field: path, message };
      }),
  );

export function listLimitCauses(kind: string, spec: unknown, path: string): readonly Cause[] {
  const problem = findSpecBeyondLimit(kind, spec, path);
  if (problem === undefined) return [];
  const message = describeLimitProblem(problem);
  return [{ reason: "FieldValueInvalid", field: problem.field, message }];
}

type JsonSchema = Readonly<Record<string, unknown>>;

const TYPE_CHECKS: Readonly<Record<string, (value: unknown) => boolean>> = {
  array: Array.isArray,
  boolean: (value) => typeof value === "boolean",
  integer: Number.isInteger,
  object: isJsonObject,
  string: (value) => typeof value === "string",
};

function isOfType(schema: JsonSchema, value: unknown): boolean {
  if (schema["x-kubernetes-int-or-string"] === true) {
    return typeof value === "string" || Number.isInteger(value);
  }
  const { enum: allowedValues } = schema;
  const isExpectedType = TYPE_CHECKS[String(schema["type"])] ?? (() => true);
  return isExpectedType(value) && (!Array.isArray(allowedValues) || allowedValues.includes(value));
}

function asSchemas(value: unknown): Readonly<Record<string, JsonSchema>> {
  // The cast is safe, because callers pass only the value of a keyword that contains schemas.
  return isJsonObject(value) ? (value as Readonly<Record<string, JsonSchema>>) : {};
}

function findMistypedMembers(
  schema: JsonSchema,
  value: JsonObject,
  path: string,
): readonly string[] {
  const properties = asSchemas(schema["properties"]);
  const required = Array.isArray(schema["required"]) ? schema["required"].map(String) : [];
  const { additionalProperties: mapValues } = asSchemas(schema);
  return [
    ...required.filter((name) => value[name] === undefined).map((name) => `${path}.${name}`),
    ...Object.entries(value).flatMap(([name, member]) => {
      const memberSchema = Object.hasOwn(properties, name) ? properties[name] : mapValues;
      return memberSchema === undefined
        ? []
        : findMistyped(memberSchema, member, `${path}.${name}`);
    }),
  ];
}

function findMistyped(schema: JsonSchema, value: unknown, path: string): readonly string[] {
  if (value === undefined || (value === null && schema["nullable"] === true)) return [];
  if (!isOfType(schema, value)) return [path];
  if (Array.isArray(value)) {
    const { items = {} } = asSchemas(schema);
    return value.flatMap((item, index) => findMistyped(items, item, `${path}[${String(index)}]`));
  }
  return isJsonObject(value) ? findMistypedMembers(schema, value, path) : [];
}

/** Returns the fields of a VM specification that are missing or have the wrong type, for objects that no API server validated. */
export function findMistypedFields(spec: unknown): readonly string[] {
  return findMistyped({ ...VmSpecSchema }, spec ?? null, "spec");
}
