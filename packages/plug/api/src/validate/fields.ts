// SPDX-License-Identifier: Apache-2.0
// Which fields of a VM, a VMI or an iface keep it from being started or plugged, and which are only kept.
import { IfaceSchema, isAbsent, type Iface } from "../kinds/network.ts";
import { VmSpecSchema, type VmSpec } from "../kinds/vm.ts";
import { VmiSpecSchema, type VmiSpec } from "../kinds/vmi-spec.ts";
import { type FieldMark, isNothing } from "../fields/notation.ts";
import {
  schemaFields,
  unactedFields,
  withoutHarmlessFields,
  type SchemaField,
  type UnactedField,
  quantitiesOf,
} from "../fields/walk.ts";
import { remembered, rememberedAt } from "../values/memoize.ts";
import { parseQuantity } from "../values/quantity.ts";
import { isJsonObject, type JsonObject } from "../values/json.ts";

/** A field, and in words what is wrong with it; no full sentence, the field comes before it. */
export interface FieldProblem {
  readonly field: string;
  readonly message: string;
}

/** Fields of an object that are not acted on. */
export interface UnactedFields {
  /** Without them the guest would be another: it is not started. */
  readonly unbuilt: readonly FieldProblem[];
  /** They change nothing for the guest. */
  readonly harmless: readonly string[];
}

function sayUnbuilt({ hint }: FieldMark): string {
  return ["is not supported yet", hint ?? []].flat().join("; ");
}

function split(fields: readonly UnactedField[]): UnactedFields {
  return {
    unbuilt: fields
      .filter(({ mark }) => mark.list === "unbuilt")
      .map(({ path, mark }) => ({ field: path, message: sayUnbuilt(mark) })),
    harmless: fields.filter(({ mark }) => mark.list === "harmless").map(({ path }) => path),
  };
}

/** An iface that is leaving asks for nothing: of what is said of the VMI specification at `base`, what is not of such a one. */
function ofPresent(fields: readonly UnactedField[], spec: VmiSpec, base: string): UnactedFields {
  const ifaces = spec.domain.devices?.interfaces ?? [];
  const absent = ifaces.flatMap((iface, index) =>
    isAbsent(iface) ? [`${base}.domain.devices.interfaces[${String(index)}].`] : [],
  );
  return split(fields.filter(({ path }) => !absent.some((prefix) => path.startsWith(prefix))));
}

/** What is not acted on of a VMI specification at `base`, in the order of the schema. */
export const unactedFieldsOfVmi: (spec: VmiSpec, base: string) => UnactedFields = rememberedAt(
  (spec, base) => ofPresent(unactedFields(VmiSpecSchema, spec, base), spec, base),
);

/** What is not acted on of a VM specification, its template with it, in the order of the schema. */
export const unactedFieldsOfVm: (spec: VmSpec) => UnactedFields = remembered((spec) => {
  const fields = unactedFields(VmSpecSchema, spec, "spec");
  return ofPresent(fields, spec.template.spec, "spec.template.spec");
});

/** The VMI specification without fields that are stored without effect, for comparisons. */
export const effectiveVmiSpec: (spec: VmiSpec) => VmiSpec = remembered(
  // Harmless fields are optional, so that the rest still is a specification.
  (spec) => withoutHarmlessFields(VmiSpecSchema, { ...spec }) as unknown as VmiSpec,
);

/** Every field of a VM, and what becomes of it. */
export function vmFields(): readonly SchemaField[] {
  return schemaFields(VmSpecSchema, "spec");
}

/** The first field of an iface, by its place below the iface, without which the NIC would be another. */
export function unbuiltFieldOf(iface: Iface): FieldProblem | undefined {
  return split(unactedFields(IfaceSchema, iface, "")).unbuilt[0];
}

function isNegative(text: string): boolean {
  return text.startsWith("-") && parseQuantity(text.slice(1)) !== undefined;
}

/** Fields of a VMI specification at `base` that ought to be an amount and are none. */
export const unreadableQuantities: (spec: VmiSpec, base: string) => readonly FieldProblem[] =
  rememberedAt((spec, base) =>
    quantitiesOf(VmiSpecSchema, spec, base)
      .filter(({ value }) => !isNothing(value) && parseQuantity(value) === undefined)
      .map(({ path, value }) => {
        const text = String(value);
        const message = isNegative(text)
          ? `${path} '${text}': must be greater than or equal to 0.`
          : `${text} is not a quantity; write, for example, 128Mi`;
        return { field: path, message };
      }),
  );

type JsonSchema = Readonly<Record<string, unknown>>;

const IS: Readonly<Record<string, (value: unknown) => boolean>> = {
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
  const { enum: words } = schema;
  const is = IS[String(schema["type"])] ?? (() => true);
  return is(value) && (!Array.isArray(words) || words.includes(value));
}

function asSchemas(value: unknown): Readonly<Record<string, JsonSchema>> {
  // Only schemas stand there.
  return isJsonObject(value) ? (value as Readonly<Record<string, JsonSchema>>) : {};
}

function memberProblems(schema: JsonSchema, value: JsonObject, path: string): readonly string[] {
  const properties = asSchemas(schema["properties"]);
  const required = Array.isArray(schema["required"]) ? schema["required"].map(String) : [];
  const { additionalProperties: others } = asSchemas(schema);
  return [
    ...required.filter((name) => value[name] === undefined).map((name) => `${path}.${name}`),
    ...Object.entries(value).flatMap(([name, member]) => {
      const inner = Object.hasOwn(properties, name) ? properties[name] : others;
      return inner === undefined ? [] : problemsOf(inner, member, `${path}.${name}`);
    }),
  ];
}

function problemsOf(schema: JsonSchema, value: unknown, path: string): readonly string[] {
  if (value === undefined || (value === null && schema["nullable"] === true)) return [];
  if (!isOfType(schema, value)) return [path];
  if (Array.isArray(value)) {
    const { items = {} } = asSchemas(schema);
    return value.flatMap((item, index) => problemsOf(items, item, `${path}[${String(index)}]`));
  }
  return isJsonObject(value) ? memberProblems(schema, value, path) : [];
}

/** Fields of what ought to be a VM's specification that are not of the type that they must be, or are missing. */
export function misshapenFields(spec: unknown): readonly string[] {
  return problemsOf({ ...VmSpecSchema }, spec ?? null, "spec");
}
