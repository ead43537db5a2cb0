// SPDX-License-Identifier: Apache-2.0
import { createRequire } from "node:module";
import type { Ajv, ErrorObject, ValidateFunction } from "ajv";
import type { Cause } from "../meta/status.ts";
import {
  duplicateValue,
  invalidValue,
  requiredValue,
  tooLongValue,
  unsupportedValue,
} from "../meta/causes.ts";
import { jsonTypeOf } from "../meta/metadata.ts";
import { type Fields, asFields, isFields, asList, printJson } from "../objects/json.ts";
import {
  type Schema,
  EMBEDDED_RESOURCE,
  INT_OR_STRING,
  LIST_MAP_KEYS,
  LIST_TYPE,
  isNullable,
  itemSchema,
  propertySchema,
} from "./structural.ts";

function itemKey(item: unknown, schema: Schema): unknown {
  if (schema[LIST_TYPE] === "set") {
    return item;
  }
  const keys = asList(schema[LIST_MAP_KEYS]).map(String);
  const defaults = asFields(itemSchema(schema)?.["properties"]);
  return Object.fromEntries(
    keys.map((key) => [key, asFields(item)[key] ?? asFields(defaults[key])["default"]]),
  );
}

function duplicateCauses(list: readonly unknown[], schema: Schema, path: string): Cause[] {
  const seenKeys = new Set<string>();
  return list.flatMap((item, index) => {
    const key = itemKey(item, schema);
    const printedKey = printJson(key);
    if (seenKeys.has(printedKey)) {
      return [duplicateValue(`${path}[${String(index)}]`, key)];
    }
    seenKeys.add(printedKey);
    return [];
  });
}

export function listCauses(value: unknown, schema: Schema, path: string): Cause[] {
  if (Array.isArray(value)) {
    const items = itemSchema(schema);
    const isUnique = schema[LIST_TYPE] === "set" || schema[LIST_TYPE] === "map";
    return [
      ...(isUnique ? duplicateCauses(value, schema, path) : []),
      ...(items === undefined
        ? []
        : value.flatMap((item, index) => listCauses(item, items, `${path}[${String(index)}]`))),
    ];
  }
  if (!isFields(value)) {
    return [];
  }
  return Object.entries(value).flatMap(([key, field]) => {
    const property = propertySchema(schema, key);
    const childPath = path === "" ? key : `${path}.${key}`;
    return property === undefined ? [] : listCauses(field, property, childPath);
  });
}

const SHARED_KEYWORDS = [
  "format",
  "maximum",
  "minimum",
  "maxLength",
  "minLength",
  "pattern",
  "maxItems",
  "minItems",
  "uniqueItems",
  "multipleOf",
  "maxProperties",
  "minProperties",
  "required",
  "enum",
] as const;

const COMBINATIONS = ["allOf", "anyOf", "oneOf"] as const;

function jsonSchemaType(schema: Schema): unknown {
  if (schema[INT_OR_STRING] === true) {
    return isNullable(schema) ? ["integer", "string", "null"] : ["integer", "string"];
  }
  const { type } = schema;
  return typeof type === "string" && isNullable(schema) ? [type, "null"] : type;
}

/** Converts exclusiveMinimum and exclusiveMaximum, which are booleans in draft 4 of JSON Schema, to numbers. */
function exclusiveLimits(schema: Schema): Fields {
  return {
    ...(schema["exclusiveMinimum"] === true ? { exclusiveMinimum: schema["minimum"] } : {}),
    ...(schema["exclusiveMaximum"] === true ? { exclusiveMaximum: schema["maximum"] } : {}),
  };
}

function childSchemas(schema: Schema): Fields {
  const { properties, additionalProperties, items, not } = schema;
  const children: Fields = {};
  if (isFields(properties)) {
    children["properties"] = Object.fromEntries(
      Object.entries(properties).map(([key, property]) => [key, toJsonSchema(asFields(property))]),
    );
  }
  if (isFields(additionalProperties)) {
    children["additionalProperties"] = toJsonSchema(additionalProperties);
  }
  if (isFields(items)) {
    children["items"] = toJsonSchema(items);
  }
  if (isFields(not)) {
    children["not"] = toJsonSchema(not);
  }
  return children;
}

function combinationSchemas(schema: Schema): Fields {
  // Ignores anyOf in an int-or-string schema, where it only repeats the two types.
  const usedKeywords = COMBINATIONS.filter(
    (key) => schema[key] !== undefined && !(key === "anyOf" && schema[INT_OR_STRING] === true),
  );
  return Object.fromEntries(
    usedKeywords.map((key) => [
      key,
      asList(schema[key]).map((part) => toJsonSchema(asFields(part))),
    ]),
  );
}

/** Converts a schema to JSON Schema. Leaves out defaults, because objects are defaulted before their validation. */
export function toJsonSchema(schema: Schema): Fields {
  const result: Fields = {};
  const type = jsonSchemaType(schema);
  if (type !== undefined) {
    result["type"] = type;
  }
  for (const key of SHARED_KEYWORDS) {
    if (schema[key] !== undefined) {
      result[key] = schema[key];
    }
  }
  if (isNullable(schema) && Array.isArray(schema["enum"])) {
    result["enum"] = [...asList(schema["enum"]), null];
  }
  if (schema[EMBEDDED_RESOURCE] === true) {
    const required = asList(schema["required"]);
    result["required"] = [...new Set([...required, "apiVersion", "kind", "metadata"])];
  }
  return {
    ...result,
    ...exclusiveLimits(schema),
    ...childSchemas(schema),
    ...combinationSchemas(schema),
  };
}

type Validator = (value: Fields) => readonly Cause[];

const require = createRequire(import.meta.url);

interface Libraries {
  readonly ajv: { readonly Ajv: typeof Ajv };
  readonly addFormats: (ajv: Ajv) => void;
}

function libraries(): Libraries {
  return {
    ajv: require("ajv") as Libraries["ajv"],
    addFormats: require("ajv-formats") as Libraries["addFormats"],
  };
}

/** Creates an Ajv instance for one schema. A shared instance would never free the memory of a compiled schema. */
function makeAjv({ ajv: library, addFormats }: Libraries): Ajv {
  const ajv = new library.Ajv({
    strict: false,
    allErrors: true,
    verbose: true,
    validateFormats: true,
    validateSchema: false,
    logger: false,
    unicodeRegExp: false,
    // Ajv's optimizer does not make validation faster, and would double the compile time of the VirtualMachine schema to 0.4 s.
    code: { optimize: false },
  });
  addFormats(ajv);
  return ajv;
}

let metaSchemaAjv: Ajv | undefined;

/** Throws for an invalid schema. `metaSchemaAjv` is shared, because compiling the meta-schema takes 10 ms. */
function checkSchema(schema: object): void {
  metaSchemaAjv ??= makeAjv(libraries());
  // With `true`, validateSchema throws instead of returning a result.
  void metaSchemaAjv.validateSchema(schema, true);
}

function compile(schema: object): ValidateFunction {
  checkSchema(schema);
  return makeAjv(libraries()).compile(schema);
}

/** Converts a JSON pointer such as `/spec/tags/1` to `spec.tags[1]`. */
function pointerToPath(pointer: string, root: unknown): string {
  let path = "";
  let value = root;
  for (const token of pointer.split("/").slice(1)) {
    const key = token.replaceAll("~1", "/").replaceAll("~0", "~");
    if (Array.isArray(value)) {
      path += `[${key}]`;
      value = value[Number(key)];
    } else {
      path = path === "" ? key : `${path}.${key}`;
      value = asFields(value)[key];
    }
  }
  return path;
}

function openApiType(value: unknown): string {
  const type = jsonTypeOf(value);
  return type === "bool" ? "boolean" : type;
}

type MessageBuilder = (error: ErrorObject, field: string) => Cause;

function limitCause({ data, params }: ErrorObject, field: string, rule: string): Cause {
  return invalidValue(field, data, `${field} in body ${rule} ${String(params["limit"])}`);
}

const MESSAGES: Readonly<Record<string, MessageBuilder>> = {
  type: ({ data, params }, field) => {
    const types = [params["type"]].flat().filter((type) => type !== "null");
    const text = `${field} in body must be of type ${types.join(",")}: ${printJson(openApiType(data))}`;
    const cause = invalidValue(field, openApiType(data), text);
    return { ...cause, reason: "FieldValueTypeInvalid" };
  },
  required: ({ params }, field) => {
    const missingProperty = String(params["missingProperty"]);
    return requiredValue(field === "" ? missingProperty : `${field}.${missingProperty}`);
  },
  enum: ({ data, params }, field) => unsupportedValue(field, data, asList(params["allowedValues"])),
  maxLength: ({ params }, field) => tooLongValue(field, Number(params["limit"])),
  maxItems: ({ data, params }, field) => ({
    reason: "FieldValueTooMany",
    message: `Too many: ${String(asList(data).length)}: must have at most ${String(params["limit"])} items`,
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
  exclusiveMinimum: (error, field) => limitCause(error, field, "should be greater than"),
  exclusiveMaximum: (error, field) => limitCause(error, field, "should be less than"),
  multipleOf: ({ data, params }, field) =>
    invalidValue(
      field,
      data,
      `${field} in body should be a multiple of ${String(params["multipleOf"])}`,
    ),
  minItems: ({ data, params }, field) =>
    invalidValue(
      field,
      asList(data).length,
      `${field} in body should have at least ${String(params["limit"])} items`,
    ),
  minProperties: ({ data, params }, field) =>
    invalidValue(
      field,
      Object.keys(asFields(data)).length,
      `${field} in body should have at least ${String(params["limit"])} properties`,
    ),
  maxProperties: ({ data, params }, field) => ({
    reason: "FieldValueTooMany",
    message: `Too many: ${String(Object.keys(asFields(data)).length)}: must have at most ${String(params["limit"])} items`,
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
    const matchCount = asList(params["passingSchemas"]).length;
    const message = `"${field}" must validate one and only one schema (oneOf). Found ${matchCount === 0 ? "none" : String(matchCount)} valid alternatives`;
    return {
      reason: "FieldValueInvalid",
      message: `Invalid value: "": ${message}`,
      field: "<nil>",
    };
  },
  anyOf: (_error, field) => ({
    reason: "FieldValueInvalid",
    message: `Invalid value: "": "${field}" must validate at least one schema (anyOf)`,
    field: "<nil>",
  }),
};

/**
 * Matches schema paths in branches of oneOf and anyOf. Errors with such paths are dropped, because Ajv also reports an error for the oneOf
 * or anyOf itself. Errors in branches of allOf are not dropped, because Ajv reports no error for the allOf itself.
 */
const IN_BRANCH = /\/(?:oneOf|anyOf)\/\d+\//;

function toCause(error: ErrorObject, root: unknown): Cause {
  const field = pointerToPath(error.instancePath, root);
  const buildMessage = MESSAGES[error.keyword];
  return buildMessage === undefined
    ? invalidValue(field, error.data, `${field} in body ${error.message ?? "is invalid"}`)
    : buildMessage(error, field);
}

/** Converts bigints to numbers, because Ajv does not support bigint. */
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

function containsBigint(value: unknown): boolean {
  if (typeof value === "bigint") {
    return true;
  }
  return typeof value === "object" && value !== null && Object.values(value).some(containsBigint);
}

/** Removes metadata from the schema, because the server validates metadata separately, in the same way for all kinds. */
function withoutMetadata(schema: Schema): Schema {
  const properties = { ...asFields(schema["properties"]) };
  delete properties["metadata"];
  return { ...schema, properties };
}

/** Creates a validator. The validator compiles the schema on first use, and throws for an invalid schema. */
export function makeValidator(schema: Schema): Validator {
  const schemaWithoutMetadata = withoutMetadata(schema);
  let validate: ValidateFunction | undefined;
  return (value) => {
    validate ??= compile(toJsonSchema(schemaWithoutMetadata));
    const data = containsBigint(value) ? asFields(withoutBigints(value)) : value;
    validate(data);
    const causes = (validate.errors ?? [])
      .filter((error) => !IN_BRANCH.test(error.schemaPath))
      .map((error) => toCause(error, data));
    return [...causes, ...listCauses(data, schemaWithoutMetadata, "")];
  };
}
