// SPDX-License-Identifier: Apache-2.0
// References of a VM to its instancetype and its preference, here called parts.
import {
  CLUSTER_INSTANCETYPES,
  CLUSTER_PREFERENCES,
  INSTANCETYPES,
  PREFERENCES,
  type Instancetype,
  type InstancetypeSpec,
  type Matcher,
  type MatcherRef,
  type Preference,
  type PreferenceSpec,
  type ResourceType,
  type VirtualMachine,
} from "@patchbay/api";
import type { Cause } from "@patchbay/api/kubernetes";

export const PARTS = ["instancetype", "preference"] as const;
export type Part = (typeof PARTS)[number];

export type PartObject = Instancetype | Preference;
export type PartType = ResourceType<Instancetype> | ResourceType<Preference>;

export interface Parts {
  readonly instancetype?: InstancetypeSpec;
  readonly preference?: PreferenceSpec;
}

const PART_TYPES: Readonly<Record<Part, readonly PartType[]>> = {
  instancetype: [CLUSTER_INSTANCETYPES, INSTANCETYPES],
  preference: [CLUSTER_PREFERENCES, PREFERENCES],
};
const REFERENCE_FIELDS = { instancetype: "instancetypeRef", preference: "preferenceRef" } as const;

export function findReferenceField(part: Part): (typeof REFERENCE_FIELDS)[Part] {
  return REFERENCE_FIELDS[part];
}

export function findMatcher(vm: VirtualMachine, part: Part): Matcher | undefined {
  return vm.spec[part];
}

export function findMatcherRef(vm: VirtualMachine, part: Part): MatcherRef | undefined {
  return vm.status?.[REFERENCE_FIELDS[part]];
}

export function hasParts(vm: VirtualMachine): boolean {
  return PARTS.some((part) => findMatcher(vm, part) !== undefined);
}

/** Returns the type for a matcher's kind (singular or plural, case-insensitive). The default is the cluster-scoped type. */
export function findPartType(part: Part, kind: string | undefined): PartType | undefined {
  const types = PART_TYPES[part];
  if (kind === undefined || kind === "") return types[0];
  const requestedName = kind.toLowerCase();
  return types.find(
    (type) => requestedName === type.kind.toLowerCase() || requestedName === type.resource,
  );
}

/** Returns the kind for a matcher without a kind. Source: KubeVirt ClusterSingularResourceName. */
export function findDefaultKind(part: Part): string {
  return (PART_TYPES[part][0]?.kind ?? "").toLowerCase();
}

export type PartLocation =
  | { readonly kind: "revision"; readonly name: string }
  | { readonly kind: "object"; readonly type: PartType; readonly name: string }
  | { readonly kind: "unknownKind"; readonly message: string };

function isSameObject(matcher: Matcher, ref: MatcherRef, part: Part): boolean {
  return (
    matcher.name === ref.name && findPartType(part, matcher.kind) === findPartType(part, ref.kind)
  );
}

/** Returns the name of the revision in use; undefined before the first use. A matcher's `revisionName` takes precedence, as in KubeVirt. */
export function findUsedRevision(vm: VirtualMachine, part: Part): string | undefined {
  const matcher = findMatcher(vm, part);
  if (matcher === undefined) return undefined;
  const requestedName = matcher.revisionName ?? "";
  if (requestedName !== "") return requestedName;
  const ref = findMatcherRef(vm, part);
  const revisionName = ref?.controllerRevisionRef?.name ?? "";
  return ref !== undefined && revisionName !== "" && isSameObject(matcher, ref, part)
    ? revisionName
    : undefined;
}

export function locatePart(vm: VirtualMachine, part: Part): PartLocation | undefined {
  const matcher = findMatcher(vm, part);
  if (matcher === undefined) return undefined;
  const revision = findUsedRevision(vm, part);
  if (revision !== undefined) return { kind: "revision", name: revision };
  const type = findPartType(part, matcher.kind);
  if (type !== undefined) return { kind: "object", type, name: matcher.name ?? "" };
  const fieldName = part === "instancetype" ? "InstancetypeMatcher" : "PreferenceMatcher";
  const message = `got unexpected kind in ${fieldName}: ${matcher.kind ?? ""}`;
  return { kind: "unknownKind", message };
}

export function buildNotFoundCause(part: Part, message: string): Cause {
  return {
    reason: "FieldValueNotFound",
    field: `spec.${part}`,
    message: `Failure to find ${part}: ${message}`,
  };
}

const INFERENCE_POLICIES: readonly string[] = ["Reject", "Ignore"];

function findNameCauses(matcher: Matcher, part: Part): readonly Cause[] {
  if ((matcher.name ?? "") !== "" || (matcher.inferFromVolume ?? "") !== "") return [];
  const message = `Either Name or InferFromVolume should be provided within the ${part} matcher`;
  return [{ reason: "FieldValueNotFound", field: `spec.${part}`, message }];
}

function inferenceCauses(matcher: Matcher, part: Part): readonly Cause[] {
  if ((matcher.inferFromVolume ?? "") === "") return [];
  const forbiddenFields = (["name", "kind"] as const).filter(
    (field) => (matcher[field] ?? "") !== "",
  );
  return forbiddenFields.map((name): Cause => {
    const fieldName = name === "name" ? "Name" : "Kind";
    const message = `${fieldName} should not be provided when InferFromVolume is used within the ${part} matcher`;
    return { reason: "FieldValueNotFound", field: `spec.${part}.${name}`, message };
  });
}

function findPolicyCauses(matcher: Matcher, part: Part): readonly Cause[] {
  const policy = matcher.inferFromVolumeFailurePolicy;
  if (policy === undefined || INFERENCE_POLICIES.includes(policy)) return [];
  const message = `Invalid value '${policy}' for InferFromVolumeFailurePolicy`;
  const field = `spec.${part}.inferFromVolumeFailurePolicy`;
  return [{ reason: "FieldValueInvalid", field, message }];
}

function updateCauses(
  matcher: Matcher,
  oldMatcher: Matcher | undefined,
  part: Part,
): readonly Cause[] {
  const revision = oldMatcher?.revisionName ?? "";
  if (oldMatcher === undefined || revision === "" || oldMatcher.name === matcher.name) return [];
  if (revision !== matcher.revisionName) return [];
  const message = "the Matcher Name has been updated without updating the RevisionName";
  return [{ reason: "FieldValueInvalid", field: `spec.${part}.revisionName`, message }];
}

/** Validates a VM's matchers. The messages are from KubeVirt pkg/instancetype/webhooks/vm/mutator.go. */
export function validateMatchers(
  vm: VirtualMachine,
  oldVm: VirtualMachine | undefined,
): readonly Cause[] {
  return PARTS.flatMap((part) => {
    const matcher = findMatcher(vm, part);
    if (matcher === undefined) return [];
    return [
      ...updateCauses(matcher, oldVm && findMatcher(oldVm, part), part),
      ...findNameCauses(matcher, part),
      ...inferenceCauses(matcher, part),
      ...findPolicyCauses(matcher, part),
    ];
  });
}
