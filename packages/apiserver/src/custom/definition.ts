// SPDX-License-Identifier: Apache-2.0
// What is particular to CustomResourceDefinitions: defaults, validation, names and conditions. Source: apiextensions/v1.
import type { Cause } from "../http/status.ts";
import { type Kind, defineKind } from "../kinds/kind.ts";
import { invalidValue, requiredValue, unsupportedValue } from "../meta/causes.ts";
import { type Fields, fieldsOf, isFields, listOf, textAt, valueAt } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import { schemaCauses } from "../schema/structural-causes.ts";
import { defaultCauses } from "./default-causes.ts";

/** Keeps a definition until its objects are gone. */
export const CLEANUP_FINALIZER = "customresourcecleanup.apiextensions.k8s.io";
export const DEFINITIONS_BUCKET = "apiextensions.k8s.io/customresourcedefinitions";

/** Other definitions of a group that were accepted. */
export type AcceptedDefinitions = (group: string) => readonly KubeObject[];

function applyDefaults(definition: KubeObject): void {
  const spec = fieldsOf(definition["spec"]);
  const names = fieldsOf(spec["names"]);
  const kind = textAt(names, "kind");
  if (kind !== "") {
    names["singular"] ??= kind.toLowerCase();
    names["listKind"] ??= `${kind}List`;
  }
  spec["conversion"] ??= { strategy: "None" };
}

/** Source: apiextensions/v1 "naming": a name that another definition of the group has is not accepted. */
function nameConflict(
  definition: KubeObject,
  others: readonly KubeObject[],
): { readonly reason: string; readonly message: string } | undefined {
  const own = fieldsOf(valueAt(definition, "spec", "names"));
  const taken = (key: string) =>
    others.some((other) => valueAt(other, "status", "acceptedNames", key) === own[key]);
  const labels: Readonly<Record<string, string>> = {
    plural: "PluralConflict",
    kind: "KindConflict",
    listKind: "ListKindConflict",
    singular: "SingularConflict",
  };
  const key = Object.keys(labels).find(taken);
  return key === undefined
    ? undefined
    : { reason: labels[key] ?? "", message: `"${String(own[key])}" is already in use` };
}

function conditionsOf(
  definition: KubeObject,
  others: readonly KubeObject[],
  now: string,
): Fields[] {
  const conflict = nameConflict(definition, others);
  const accepted = {
    type: "NamesAccepted",
    status: conflict === undefined ? "True" : "False",
    lastTransitionTime: now,
    reason: conflict?.reason ?? "NoConflicts",
    message: conflict?.message ?? "no conflicts found",
  };
  const established = {
    type: "Established",
    status: conflict === undefined ? "True" : "False",
    lastTransitionTime: now,
    reason: conflict === undefined ? "InitialNamesAccepted" : "NotAccepted",
    message:
      conflict === undefined
        ? "the initial names have been accepted"
        : "not all names are accepted",
  };
  return [accepted, established];
}

function storageVersion(definition: KubeObject): string {
  const versions = listOf(valueAt(definition, "spec", "versions"));
  return textAt(
    versions.find((version) => valueAt(version, "storage") === true),
    "name",
  );
}

function prepareCreate(definition: KubeObject, accepted: AcceptedDefinitions): void {
  const others = accepted(textAt(definition, "spec", "group"));
  const now = definition.metadata.creationTimestamp ?? "";
  const conditions = conditionsOf(definition, others, now);
  definition.metadata.finalizers = [
    ...new Set([...(definition.metadata.finalizers ?? []), CLEANUP_FINALIZER]),
  ];
  definition["status"] = {
    conditions,
    acceptedNames:
      conditions[0]?.["status"] === "True"
        ? fieldsOf(valueAt(definition, "spec", "names"))
        : { plural: "", kind: "" },
    storedVersions: [storageVersion(definition)],
  };
}

function prepareUpdate(definition: KubeObject): void {
  const status = { ...fieldsOf(definition["status"]) };
  const stored = listOf(status["storedVersions"]);
  status["storedVersions"] = [...new Set([...stored, storageVersion(definition)])];
  if (listOf(status["conditions"]).some((condition) => textAt(condition, "status") === "True")) {
    status["acceptedNames"] = fieldsOf(valueAt(definition, "spec", "names"));
  }
  definition["status"] = status;
}

function versionCauses(version: Fields, index: number): Cause[] {
  const field = `spec.versions[${String(index)}]`;
  const schema = valueAt(version, "schema", "openAPIV3Schema");
  if (!isFields(schema)) {
    return [requiredValue(`${field}.schema.openAPIV3Schema`, "schemas are required")];
  }
  const path = `${field}.schema.openAPIV3Schema`;
  const structural = schemaCauses(schema, path);
  return structural.length > 0 ? structural : defaultCauses(schema, path);
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
  const spec = fieldsOf(definition["spec"]);
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

function validate(definition: KubeObject): Cause[] {
  const spec = fieldsOf(definition["spec"]);
  const versions = listOf(spec["versions"]).map(fieldsOf);
  const stored = versions.filter((version) => version["storage"] === true).length;
  return [
    ...namesCauses(definition),
    ...groupCauses(definition),
    ...(stored === 1
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
    ...versions.flatMap(versionCauses),
  ];
}

function validateUpdate(definition: KubeObject, current: KubeObject): Cause[] {
  const fixed = [["scope"], ["group"], ["names", "kind"], ["names", "plural"]];
  return fixed.flatMap((path) => {
    const is = valueAt(definition, "spec", ...path);
    return is === valueAt(current, "spec", ...path)
      ? []
      : [invalidValue(`spec.${path.join(".")}`, is, "field is immutable")];
  });
}

/** CustomResourceDefinitions; `accepted` tells the definitions whose names are taken. */
export function definitionKind(accepted: AcceptedDefinitions): Kind {
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
      applyDefaults,
      prepareCreate: (definition) => {
        prepareCreate(definition, accepted);
      },
      prepareUpdate,
      validate,
      validateUpdate,
      columns: [
        { name: "Created At", type: "date", cell: (object) => object.metadata.creationTimestamp },
      ],
    },
  });
}
