// SPDX-License-Identifier: Apache-2.0
// Which names of a definition are accepted: those that no other definition of its group has. Source: apiextensions/v1 "naming".
import { type Fields, fieldsOf, listOf, textAt, valueAt } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";

/** Why names are not accepted. */
export interface NameConflict {
  readonly reason: string;
  readonly message: string;
}

function acceptedOf(definition: KubeObject): Fields {
  return fieldsOf(valueAt(definition, "status", "acceptedNames"));
}

function resourceNames(names: Fields): unknown[] {
  return [names["plural"], names["singular"], ...listOf(names["shortNames"])];
}

const CHECKS: readonly (readonly [string, string, "resource" | "kind"])[] = [
  ["plural", "PluralConflict", "resource"],
  ["singular", "SingularConflict", "resource"],
  ["shortNames", "ShortNamesConflict", "resource"],
  ["kind", "KindConflict", "kind"],
  ["listKind", "ListKindConflict", "kind"],
];

/** The last conflict, as Kubernetes reports it; undefined where all names are free. */
export function nameConflict(
  definition: KubeObject,
  others: readonly KubeObject[],
): NameConflict | undefined {
  const accepted = others.map(acceptedOf);
  const taken = {
    resource: new Set(accepted.flatMap(resourceNames)),
    kind: new Set(accepted.flatMap((names) => [names["kind"], names["listKind"]])),
  };
  const own = fieldsOf(valueAt(definition, "spec", "names"));
  return CHECKS.flatMap(([key, reason, space]) =>
    [own[key]]
      .flat()
      .filter((name) => typeof name === "string" && taken[space].has(name))
      .map((name) => ({ reason, message: `${JSON.stringify(name)} is already in use` })),
  ).at(-1);
}

/** Definitions of the same group, without this one. */
export function othersOf(
  definition: KubeObject,
  all: readonly KubeObject[],
): readonly KubeObject[] {
  const group = textAt(definition, "spec", "group");
  return all.filter(
    (other) =>
      other.metadata.name !== definition.metadata.name && textAt(other, "spec", "group") === group,
  );
}
