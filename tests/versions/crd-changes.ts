// SPDX-License-Identifier: Apache-2.0
// Finds changes of a CRD after which stored objects, clients or agents of the version before no longer work.
import type { JsonObject } from "@patchbay/api/json";
import { isEqual } from "@patchbay/base";
import type { CrdRecord, Fields, VersionRecord } from "./crd-record.ts";

export interface Change {
  readonly crd: string;
  /** Unset for a change of the whole CRD. */
  readonly version?: string;
  /** Path of the field; unset for a change of the CRD or of the version. */
  readonly path?: string;
  readonly change: string;
}

type Compare = (before: unknown, after: unknown) => readonly string[];

function print(value: unknown): string {
  if (value === undefined) return "unset";
  return typeof value === "string" ? value : JSON.stringify(value);
}

function listOf(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : [];
}

/** Without the limit, or with a wider one, every old value is valid. */
function limit(keyword: string, isNarrower: (before: number, after: number) => boolean): Compare {
  return (before, after) =>
    typeof after === "number" && (typeof before !== "number" || isNarrower(before, after))
      ? [`${keyword} ${print(before)} became ${print(after)}`]
      : [];
}

function lowerLimit(keyword: string): Compare {
  const compare = limit(keyword, (before, after) => after > before);
  // A length is never negative.
  return (before, after) => (keyword !== "minimum" && after === 0 ? [] : compare(before, after));
}

function upperLimit(keyword: string): Compare {
  return limit(keyword, (before, after) => after < before);
}

function compareTypes(before: unknown, after: unknown): readonly string[] {
  const isWider = after === undefined || (before === "integer" && after === "number");
  return before === after || isWider ? [] : [`type ${print(before)} became ${print(after)}`];
}

function compareEnums(before: unknown, after: unknown): readonly string[] {
  if (after === undefined) return [];
  if (before === undefined) return [`enum became ${print(after)}`];
  const values = listOf(after);
  return listOf(before)
    .filter((value) => !values.some((each) => isEqual(each, value)))
    .map((value) => `value ${print(value)} was removed`);
}

function compareRequired(before: unknown, after: unknown): readonly string[] {
  return listOf(after)
    .filter((name) => !listOf(before).includes(name))
    .map((name) => `${print(name)} became required`);
}

function compareRules(before: unknown, after: unknown): readonly string[] {
  return listOf(after)
    .filter((rule) => !listOf(before).some((each) => isEqual(each, rule)))
    .map((rule) => `rule ${print(rule)} was added`);
}

/** For keywords that allow something: only their removal narrows. */
function permission(keyword: string): Compare {
  return (before, after) => (before === true && after !== true ? [`${keyword} was removed`] : []);
}

/** For keywords that restrict: their removal widens. */
function restriction(keyword: string): Compare {
  return (before, after) =>
    after === undefined || after === false || isEqual(before, after)
      ? []
      : [`${keyword} ${print(before)} became ${print(after)}`];
}

function sameness(keyword: string, otherwise?: string): Compare {
  return (before = otherwise, after = otherwise) =>
    isEqual(before, after) ? [] : [`${keyword} ${print(before)} became ${print(after)}`];
}

function compareDefaults(before: unknown, after: unknown): readonly string[] {
  if (before === undefined) return [];
  return sameness("default")(before, after);
}

function compareAdditional(before: unknown, after: unknown): readonly string[] {
  return before !== false && after === false ? ["additionalProperties became false"] : [];
}

/** The comparison of each keyword of a structural schema. Other keywords must not change. */
const KEYWORDS: Readonly<Record<string, Compare>> = {
  type: compareTypes,
  enum: compareEnums,
  required: compareRequired,
  default: compareDefaults,
  additionalProperties: compareAdditional,
  "x-kubernetes-validations": compareRules,
  "x-kubernetes-list-type": sameness("x-kubernetes-list-type", "atomic"),
  "x-kubernetes-map-type": sameness("x-kubernetes-map-type", "granular"),
  ...Object.fromEntries(
    ["nullable", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-int-or-string"].map(
      (keyword) => [keyword, permission(keyword)],
    ),
  ),
  ...Object.fromEntries(
    ["minimum", "minLength", "minItems", "minProperties"].map((keyword) => [
      keyword,
      lowerLimit(keyword),
    ]),
  ),
  ...Object.fromEntries(
    ["maximum", "maxLength", "maxItems", "maxProperties"].map((keyword) => [
      keyword,
      upperLimit(keyword),
    ]),
  ),
  ...Object.fromEntries(
    ["pattern", "format", "multipleOf", "uniqueItems", "exclusiveMinimum", "exclusiveMaximum"].map(
      (keyword) => [keyword, restriction(keyword)],
    ),
  ),
};

function compareFacts(before: JsonObject, after: JsonObject): readonly string[] {
  const keywords = new Set([...Object.keys(before), ...Object.keys(after)]);
  return [...keywords].toSorted().flatMap((keyword) => {
    const compare = KEYWORDS[keyword] ?? sameness(keyword);
    return compare(before[keyword], after[keyword]);
  });
}

function parentOf(path: string): string {
  if (path.endsWith("[]") || path.endsWith("{}")) return path.slice(0, -2);
  const parent = path.slice(0, path.lastIndexOf("/"));
  return parent === "" ? "/" : parent;
}

/** Whether the field's values remain valid although the schema does not list the field. */
function isAllowedUnlisted(path: string, after: Fields): boolean {
  const facts = after.get(parentOf(path));
  return (
    facts?.["x-kubernetes-preserve-unknown-fields"] === true ||
    facts?.["additionalProperties"] === true
  );
}

function compareField(
  [path, facts]: readonly [string, JsonObject],
  after: Fields,
): readonly string[] {
  const current = after.get(path);
  if (current !== undefined) return compareFacts(facts, current);
  // A removed field is reported once, without the fields below it.
  const isParentPresent = path === "/" || after.has(parentOf(path));
  return isParentPresent && !isAllowedUnlisted(path, after) ? ["the field was removed"] : [];
}

/** Changes of the schema that narrow it, by path. */
export function compareFields(
  before: Fields,
  after: Fields,
): readonly { readonly path: string; readonly change: string }[] {
  return [...before].flatMap(([path, facts]) =>
    compareField([path, facts], after).map((change) => ({ path, change })),
  );
}

type PartChange = Omit<Change, "crd">;

function compareVersion(
  before: VersionRecord,
  after: VersionRecord | undefined,
): readonly PartChange[] {
  const { name: version } = before;
  if (after === undefined) return [{ version, change: "the version was removed" }];
  const lostSubresources = Object.entries(before.subresources).filter(
    ([name, value]) => !isEqual(after.subresources[name], value),
  );
  return [
    ...(before.served && !after.served ? ["the version is no longer served"] : []),
    ...(before.storage === after.storage ? [] : ["the storage version changed"]),
    ...lostSubresources.map(([name]) => `subresource ${name} changed`),
  ]
    .map((change): PartChange => ({ version, change }))
    .concat(
      compareFields(before.fields, after.fields).map(({ path, change }) => ({
        version,
        path,
        change,
      })),
    );
}

/** Returns changes that are not compatible. `after` is undefined if the CRD no longer exists. */
export function compareCrds(before: CrdRecord, after: CrdRecord | undefined): readonly Change[] {
  const { name: crd } = before;
  if (after === undefined) return [{ crd, change: "the CRD was removed" }];
  const versions = new Map(after.versions.map((version) => [version.name, version]));
  const changes: readonly PartChange[] = [
    ...compareFacts(before.facts, after.facts).map((change) => ({ change })),
    ...before.versions.flatMap((version) => compareVersion(version, versions.get(version.name))),
  ];
  return changes.map((change) => ({ crd, ...change }));
}

export function printChange({ crd, version, path, change }: Change): string {
  return [crd, version, path].filter((part) => part !== undefined).join(" ") + `: ${change}`;
}
