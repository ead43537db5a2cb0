// SPDX-License-Identifier: Apache-2.0
// Does an object keep to its structural schema? Refusals are worded as Kubernetes words them.
import { createRequire } from "node:module";
import type { Ajv, ErrorObject, ValidateFunction } from "ajv";
import type { Cause } from "../meta/status.ts";
import { invalidValue, requiredValue, tooLongValue, unsupportedValue } from "../meta/causes.ts";
import { jsonTypeOf } from "../meta/decode-meta.ts";
import { type Fields, fieldsOf, isFields, listOf, printJson } from "../objects/json.ts";
import { listCauses } from "./lists.ts";
import type { Schema } from "./structural.ts";
import { toJsonSchema } from "./to-json-schema.ts";

/** Gives the causes for which a value is refused. */
export type Validator = (value: Fields) => readonly Cause[];

const require = createRequire(import.meta.url);

interface Libraries {
  readonly ajv: { readonly Ajv: typeof Ajv };
  readonly addFormats: (ajv: Ajv) => void;
}

/** Loaded with the first object that has to be validated. */
function libraries(): Libraries {
  // What the packages export is what their types say; both are CommonJS.
  return {
    ajv: require("ajv") as Libraries["ajv"],
    addFormats: require("ajv-formats") as Libraries["addFormats"],
  };
}

/** One for each schema: it keeps what it has compiled. */
function makeAjv({ ajv: library, addFormats }: Libraries): Ajv {
  const ajv = new library.Ajv({
    strict: false,
    allErrors: true,
    verbose: true,
    validateFormats: true,
    validateSchema: false,
    logger: false,
    unicodeRegExp: false,
    // It makes the code shorter, which V8 does as well: for the schema of a VM it takes 0.2 of 0.4 s, and 2,000 VMs are
    // validated in as long.
    code: { optimize: false },
  });
  addFormats(ajv);
  return ajv;
}

let checker: Ajv | undefined;

/** Throws where the schema is wrong. One for all, since what schemas are validated by takes 10 ms to compile. */
function checkSchema(schema: object): void {
  checker ??= makeAjv(libraries());
  // It throws instead of answering.
  void checker.validateSchema(schema, true);
}

function compile(schema: object): ValidateFunction {
  checkSchema(schema);
  return makeAjv(libraries()).compile(schema);
}

/** `/spec/tags/1` in data `{spec: {tags: [..]}}` as `spec.tags[1]`. */
function fieldOf(pointer: string, root: unknown): string {
  let path = "";
  let value = root;
  for (const token of pointer.split("/").slice(1)) {
    const key = token.replaceAll("~1", "/").replaceAll("~0", "~");
    if (Array.isArray(value)) {
      path += `[${key}]`;
      value = value[Number(key)];
    } else {
      path = path === "" ? key : `${path}.${key}`;
      value = fieldsOf(value)[key];
    }
  }
  return path;
}

function goTypeOf(value: unknown): string {
  const type = jsonTypeOf(value);
  return type === "bool" ? "boolean" : type;
}

type Wording = (error: ErrorObject, field: string) => Cause;

function limited({ data, params }: ErrorObject, field: string, what: string): Cause {
  return invalidValue(field, data, `${field} in body ${what} ${String(params["limit"])}`);
}

const WORDINGS: Readonly<Record<string, Wording>> = {
  type: ({ data, params }, field) => {
    const types = [params["type"]].flat().filter((type) => type !== "null");
    const text = `${field} in body must be of type ${types.join(",")}: ${printJson(goTypeOf(data))}`;
    const cause = invalidValue(field, goTypeOf(data), text);
    return { ...cause, reason: "FieldValueTypeInvalid" };
  },
  required: ({ params }, field) => {
    const missing = String(params["missingProperty"]);
    return requiredValue(field === "" ? missing : `${field}.${missing}`);
  },
  enum: ({ data, params }, field) => unsupportedValue(field, data, listOf(params["allowedValues"])),
  maxLength: ({ params }, field) => tooLongValue(field, Number(params["limit"])),
  maxItems: ({ data, params }, field) => ({
    reason: "FieldValueTooMany",
    message: `Too many: ${String(listOf(data).length)}: must have at most ${String(params["limit"])} items`,
    field,
  }),
  minimum: ({ data, params }, field) =>
    invalidValue(
      field,
      data,
      `${field} in body should be greater than or equal to ${String(params["limit"])}`,
    ),
  maximum: ({ data, params }, field) =>
    invalidValue(
      field,
      data,
      `${field} in body should be less than or equal to ${String(params["limit"])}`,
    ),
  exclusiveMinimum: (error, field) => limited(error, field, "should be greater than"),
  exclusiveMaximum: (error, field) => limited(error, field, "should be less than"),
  multipleOf: ({ data, params }, field) =>
    invalidValue(
      field,
      data,
      `${field} in body should be a multiple of ${String(params["multipleOf"])}`,
    ),
  minItems: ({ data, params }, field) =>
    invalidValue(
      field,
      listOf(data).length,
      `${field} in body should have at least ${String(params["limit"])} items`,
    ),
  minProperties: ({ data, params }, field) =>
    invalidValue(
      field,
      Object.keys(fieldsOf(data)).length,
      `${field} in body should have at least ${String(params["limit"])} properties`,
    ),
  maxProperties: ({ data, params }, field) => ({
    reason: "FieldValueTooMany",
    message: `Too many: ${String(Object.keys(fieldsOf(data)).length)}: must have at most ${String(params["limit"])} items`,
    field,
  }),
  minLength: ({ data, params }, field) =>
    invalidValue(
      field,
      data,
      `${field} in body should be at least ${String(params["limit"])} chars long`,
    ),
  pattern: ({ data, params }, field) =>
    invalidValue(field, data, `${field} in body should match '${String(params["pattern"])}'`),
  format: ({ data, params }, field) =>
    invalidValue(
      field,
      data,
      `${field} in body must be of type ${String(params["format"])}: ${printJson(data)}`,
    ),
  oneOf: ({ params }, field) => {
    const found = listOf(params["passingSchemas"]).length;
    const why = `"${field}" must validate one and only one schema (oneOf). Found ${found === 0 ? "none" : String(found)} valid alternatives`;
    return { reason: "FieldValueInvalid", message: `Invalid value: "": ${why}`, field: "<nil>" };
  },
  anyOf: (_error, field) => ({
    reason: "FieldValueInvalid",
    message: `Invalid value: "": "${field}" must validate at least one schema (anyOf)`,
    field: "<nil>",
  }),
};

/** Errors inside the branches of a combination are said by the combination. */
const IN_BRANCH = /\/(oneOf|anyOf|not|allOf)\/\d+\//;

function toCause(error: ErrorObject, root: unknown): Cause {
  const field = fieldOf(error.instancePath, root);
  const wording = WORDINGS[error.keyword];
  return wording === undefined
    ? invalidValue(field, error.data, `${field} in body ${error.message ?? "is invalid"}`)
    : wording(error, field);
}

/** Long integers as numbers: the validator knows no bigint. */
function withoutBigints(value: unknown): unknown {
  if (typeof value === "bigint") {
    return Number(value);
  }
  if (Array.isArray(value)) {
    return value.map(withoutBigints);
  }
  return isFields(value)
    ? Object.fromEntries(Object.entries(value).map(([key, field]) => [key, withoutBigints(field)]))
    : value;
}

function holdsBigint(value: unknown): boolean {
  if (typeof value === "bigint") {
    return true;
  }
  return typeof value === "object" && value !== null && Object.values(value).some(holdsBigint);
}

/** Schemas without metadata, which is validated for all kinds alike. */
function withoutMetadata(schema: Schema): Schema {
  const properties = { ...fieldsOf(schema["properties"]) };
  delete properties["metadata"];
  return { ...schema, properties };
}

/** A validator for a schema; compiled when it is first used. Throws where the schema itself is wrong. */
export function makeValidator(schema: Schema): Validator {
  const own = withoutMetadata(schema);
  let compiled: ValidateFunction | undefined;
  return (value) => {
    compiled ??= compile(toJsonSchema(own));
    const data = holdsBigint(value) ? fieldsOf(withoutBigints(value)) : value;
    compiled(data);
    const causes = (compiled.errors ?? [])
      .filter((error) => !IN_BRANCH.test(error.schemaPath))
      .map((error) => toCause(error, data));
    return [...causes, ...listCauses(data, own, "")];
  };
}
