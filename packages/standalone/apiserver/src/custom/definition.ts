// SPDX-License-Identifier: Apache-2.0
// Kind CustomResourceDefinition and its status. Source: apiextensions/v1.
import { type Kind, defineKind } from "../kinds/kind.ts";
import { type Fields, asFields, asList, textAt, valueAt } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import {
  definitionCauses,
  definitionUpdateCauses,
  definitionWarnings,
} from "./definition-validation.ts";

interface NameConflict {
  readonly reason: string;
  readonly message: string;
}

function acceptedNames(definition: KubeObject): Fields {
  return asFields(valueAt(definition, "status", "acceptedNames"));
}

function resourceNames(names: Fields): unknown[] {
  return [names["plural"], names["singular"], ...asList(names["shortNames"])];
}

const NAME_CHECKS: readonly (readonly [string, string, "resource" | "kind"])[] = [
  ["plural", "PluralConflict", "resource"],
  ["singular", "SingularConflict", "resource"],
  ["shortNames", "ShortNamesConflict", "resource"],
  ["kind", "KindConflict", "kind"],
  ["listKind", "ListKindConflict", "kind"],
];

/** Returns a name conflict, if any. Like Kubernetes, selects the last of several conflicts. Source: apiextensions/v1 "naming". */
function findNameConflict(
  definition: KubeObject,
  definitions: readonly KubeObject[],
): NameConflict | undefined {
  const usedNames = definitions.map(acceptedNames);
  const inUse = {
    resource: new Set(usedNames.flatMap(resourceNames)),
    kind: new Set(usedNames.flatMap((names) => [names["kind"], names["listKind"]])),
  };
  const names = asFields(valueAt(definition, "spec", "names"));
  return NAME_CHECKS.flatMap(([key, reason, nameType]) =>
    [names[key]]
      .flat()
      .filter((name) => typeof name === "string" && inUse[nameType].has(name))
      .map((name) => ({ reason, message: `${JSON.stringify(name)} is already in use` })),
  ).at(-1);
}

function sameGroupDefinitions(
  definition: KubeObject,
  definitions: readonly KubeObject[],
): readonly KubeObject[] {
  const group = textAt(definition, "spec", "group");
  return definitions.filter(
    (candidate) =>
      candidate.metadata.name !== definition.metadata.name &&
      textAt(candidate, "spec", "group") === group,
  );
}

export const CLEANUP_FINALIZER = "customresourcecleanup.apiextensions.k8s.io";
export const DEFINITIONS_BUCKET = "apiextensions.k8s.io/customresourcedefinitions";

type AcceptedDefinitions = (group: string) => readonly KubeObject[];

function applyDefaults(definition: KubeObject): void {
  const spec = asFields(definition["spec"]);
  const names = asFields(spec["names"]);
  const kind = textAt(names, "kind");
  if (kind !== "") {
    names["singular"] ??= kind.toLowerCase();
    names["listKind"] ??= `${kind}List`;
  }
  spec["conversion"] ??= { strategy: "None" };
}

interface Condition {
  readonly type: string;
  readonly status: "True" | "False";
  readonly reason: string;
  readonly message: string;
}

/** Builds the conditions NamesAccepted and Established. An established definition remains established if a name conflicts. */
function nameConditions(
  definition: KubeObject,
  definitions: readonly KubeObject[],
  wasEstablished: boolean,
): readonly Condition[] {
  const conflict = findNameConflict(definition, sameGroupDefinitions(definition, definitions));
  const isEstablished = wasEstablished || conflict === undefined;
  return [
    {
      type: "NamesAccepted",
      status: conflict === undefined ? "True" : "False",
      reason: conflict?.reason ?? "NoConflicts",
      message: conflict?.message ?? "no conflicts found",
    },
    {
      type: "Established",
      status: isEstablished ? "True" : "False",
      reason: isEstablished ? "InitialNamesAccepted" : "NotAccepted",
      message: isEstablished
        ? "the initial names have been accepted"
        : "not all names are accepted",
    },
  ];
}

function findCondition(definition: KubeObject, type: string): unknown {
  return asList(valueAt(definition, "status", "conditions")).find(
    (condition) => textAt(condition, "type") === type,
  );
}

/** Returns the status with new NamesAccepted and Established conditions. Retains the transition times of unchanged conditions. */
export function withNameConditions(
  definition: KubeObject,
  definitions: readonly KubeObject[],
  now: string,
): Fields {
  const status = asFields(definition["status"]);
  const wasEstablished = textAt(findCondition(definition, "Established"), "status") === "True";
  const conditions = nameConditions(definition, definitions, wasEstablished).map((condition) => {
    const previous = findCondition(definition, condition.type);
    const isUnchanged = textAt(previous, "status") === condition.status;
    return {
      ...condition,
      lastTransitionTime: isUnchanged ? textAt(previous, "lastTransitionTime") : now,
    };
  });
  const areNamesAccepted = conditions[0]?.status === "True";
  const otherConditions = asList(status["conditions"]).filter(
    (condition) => !conditions.some(({ type }) => type === textAt(condition, "type")),
  );
  return {
    ...status,
    conditions: [...conditions, ...otherConditions],
    acceptedNames: areNamesAccepted
      ? asFields(valueAt(definition, "spec", "names"))
      : (status["acceptedNames"] ?? { plural: "", kind: "" }),
  };
}

function storageVersion(definition: KubeObject): string {
  const versions = asList(valueAt(definition, "spec", "versions"));
  return textAt(
    versions.find((version) => valueAt(version, "storage") === true),
    "name",
  );
}

function prepareCreate(definition: KubeObject, listAccepted: AcceptedDefinitions): void {
  const definitions = listAccepted(textAt(definition, "spec", "group"));
  definition.metadata.finalizers = [
    ...new Set([...(definition.metadata.finalizers ?? []), CLEANUP_FINALIZER]),
  ];
  definition["status"] = {
    ...withNameConditions(definition, definitions, definition.metadata.creationTimestamp ?? ""),
    storedVersions: [storageVersion(definition)],
  };
}

function prepareUpdate(definition: KubeObject, listAccepted: AcceptedDefinitions): void {
  const definitions = listAccepted(textAt(definition, "spec", "group"));
  // No clock is available here, so the creation time serves as the transition time of changed conditions.
  const status = withNameConditions(
    definition,
    definitions,
    definition.metadata.creationTimestamp ?? "",
  );
  const storedVersions = asList(status["storedVersions"]);
  status["storedVersions"] = [...new Set([...storedVersions, storageVersion(definition)])];
  definition["status"] = status;
}

export function definitionKind(listAccepted: AcceptedDefinitions): Kind {
  return defineKind({
    group: "apiextensions.k8s.io",
    version: "v1",
    resource: "customresourcedefinitions",
    kind: "CustomResourceDefinition",
    namespaced: false,
    shortNames: ["crd", "crds"],
    categories: ["api-extensions"],
    strategy: {
      hasStatus: true,
      hasGeneration: true,
      allowsUnconditionalUpdate: false,
      applyDefaults,
      prepareCreate: (definition) => {
        prepareCreate(definition, listAccepted);
      },
      prepareUpdate: (definition) => {
        prepareUpdate(definition, listAccepted);
      },
      validate: definitionCauses,
      validateUpdate: definitionUpdateCauses,
      warnings: definitionWarnings,
      columns: [
        { name: "Created At", type: "date", cell: (object) => object.metadata.creationTimestamp },
      ],
    },
  });
}
