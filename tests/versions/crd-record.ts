// SPDX-License-Identifier: Apache-2.0
// A CRD as facts by field path: the form in which a release's CRDs are recorded and compared.
import { isJsonObject, parseJson, type JsonObject } from "@patchbay/api/json";

/** Facts of each field by its path: `/spec/running`; `[]` stands for entries of a list, `{}` for values of a map. */
export type Fields = ReadonlyMap<string, JsonObject>;

export interface VersionRecord {
  readonly name: string;
  readonly served: boolean;
  readonly storage: boolean;
  readonly subresources: JsonObject;
  readonly fields: Fields;
}

export interface CrdRecord {
  readonly name: string;
  /** Group, scope, names and conversion. */
  readonly facts: JsonObject;
  readonly versions: readonly VersionRecord[];
}

/** Path of the whole object. */
const ROOT = "/";
/** Keywords that change no value. */
const TEXTS = ["description", "title", "example", "externalDocs"];

function objectAt(value: unknown, name: string): JsonObject {
  const found = isJsonObject(value) ? value[name] : undefined;
  return isJsonObject(found) ? found : {};
}

function listObjects(value: unknown): readonly JsonObject[] {
  return Array.isArray(value) ? value.filter(isJsonObject) : [];
}

/** The schema's facts, its own first. */
export function listFields(schema: JsonObject, path = ROOT): Fields {
  const { properties, items, additionalProperties, ...own } = schema;
  const below = path === ROOT ? "" : path;
  const children: (readonly [string, unknown])[] = [
    ...Object.entries(isJsonObject(properties) ? properties : {}).map(
      ([name, child]) => [`${below}/${name}`, child] as const,
    ),
    [`${below}[]`, items],
    [`${below}{}`, additionalProperties],
  ];
  const facts = Object.fromEntries(
    Object.entries({
      ...own,
      ...(typeof additionalProperties === "boolean" && { additionalProperties }),
    })
      .filter(([keyword]) => !TEXTS.includes(keyword))
      .toSorted(([left], [right]) => (left < right ? -1 : 1)),
  );
  return new Map([
    [path, facts],
    ...children.flatMap(([at, child]) => (isJsonObject(child) ? [...listFields(child, at)] : [])),
  ]);
}

function readVersion(version: JsonObject): VersionRecord {
  return {
    name: String(version["name"]),
    served: version["served"] === true,
    storage: version["storage"] === true,
    subresources: objectAt(version, "subresources"),
    fields: listFields(objectAt(objectAt(version, "schema"), "openAPIV3Schema")),
  };
}

/** @param definition - a CustomResourceDefinition of apiextensions.k8s.io/v1 */
export function readCrd(definition: unknown): CrdRecord {
  const { versions, ...facts } = objectAt(definition, "spec");
  return {
    name: String(objectAt(definition, "metadata")["name"]),
    facts,
    versions: listObjects(versions).map(readVersion),
  };
}

function printFields(fields: Fields): string {
  return [...fields].map(([path, facts]) => `${path} ${JSON.stringify(facts)}\n`).join("");
}

/** Prints a record. Versions with equal fields share them. */
export function printCrd({ name, facts, versions }: CrdRecord): string {
  const namesByFields = new Map<string, string[]>();
  for (const { name: version, fields } of versions) {
    const text = printFields(fields);
    namesByFields.set(text, [...(namesByFields.get(text) ?? []), version]);
  }
  const heads = versions.map(
    ({ name: version, served, storage, subresources }) =>
      `version ${JSON.stringify({ name: version, served, storage, subresources })}\n`,
  );
  const bodies = [...namesByFields].map(([text, names]) => `fields ${names.join(" ")}\n${text}`);
  return [`crd ${name} ${JSON.stringify(facts)}\n`, ...heads, ...bodies].join("");
}

function parseObject(text: string): JsonObject {
  const value = parseJson(text);
  if (isJsonObject(value)) return value;
  throw new TypeError(`a line of a record has no object: ${text}`);
}

/** The words before the object at the end of the line, and that object. */
function splitLine(line: string): readonly [words: readonly string[], text: string] {
  const at = line.indexOf(" {");
  return at === -1 ? [line.split(" "), ""] : [line.slice(0, at).split(" "), line.slice(at + 1)];
}

/** Parses what `printCrd` printed. */
export function parseCrd(text: string): CrdRecord {
  const heads: JsonObject[] = [];
  const fieldsByVersion = new Map<string, Map<string, JsonObject>>();
  let crd: { readonly name: string; readonly facts: JsonObject } | undefined;
  let current = new Map<string, JsonObject>();
  for (const line of text.split("\n").filter((each) => each !== "")) {
    const [[kind = "", ...rest], object] = splitLine(line);
    if (kind === "crd") crd = { name: rest[0] ?? "", facts: parseObject(object) };
    else if (kind === "version") heads.push(parseObject(object));
    else if (kind === "fields") {
      current = new Map();
      for (const version of rest) fieldsByVersion.set(version, current);
    } else current.set(kind, parseObject(object));
  }
  if (crd === undefined) throw new TypeError("the record names no CRD");
  const versions = heads.map((head): VersionRecord => {
    const name = String(head["name"]);
    const fields: Fields = fieldsByVersion.get(name) ?? new Map();
    const [served, storage] = [head["served"] === true, head["storage"] === true];
    return { name, served, storage, subresources: objectAt(head, "subresources"), fields };
  });
  return { ...crd, versions };
}
