// SPDX-License-Identifier: Apache-2.0
// Matchers: a VM's references to its instancetype and preference.
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

export const MATCHER_ROLES = ["instancetype", "preference"] as const;
export type MatcherRole = (typeof MATCHER_ROLES)[number];

export type MatchedObject = Instancetype | Preference;
export type MatchedType = ResourceType<Instancetype> | ResourceType<Preference>;

export interface InstancetypeSpecs {
  readonly instancetype?: InstancetypeSpec;
  readonly preference?: PreferenceSpec;
}

const MATCHED_TYPES: Readonly<Record<MatcherRole, readonly MatchedType[]>> = {
  instancetype: [CLUSTER_INSTANCETYPES, INSTANCETYPES],
  preference: [CLUSTER_PREFERENCES, PREFERENCES],
};
const REFERENCE_FIELDS = { instancetype: "instancetypeRef", preference: "preferenceRef" } as const;

export function findReferenceField(role: MatcherRole): (typeof REFERENCE_FIELDS)[MatcherRole] {
  return REFERENCE_FIELDS[role];
}

export function findMatcher(vm: VirtualMachine, role: MatcherRole): Matcher | undefined {
  return vm.spec[role];
}

export function findMatcherRef(vm: VirtualMachine, role: MatcherRole): MatcherRef | undefined {
  return vm.status?.[REFERENCE_FIELDS[role]];
}

export function hasMatcher(vm: VirtualMachine): boolean {
  return MATCHER_ROLES.some((role) => findMatcher(vm, role) !== undefined);
}

/** Returns the type for a matcher's kind (singular or plural, case-insensitive), if known. The default is the cluster-scoped type. */
export function findMatchedType(
  role: MatcherRole,
  kind: string | undefined,
): MatchedType | undefined {
  const types = MATCHED_TYPES[role];
  if (kind === undefined || kind === "") return types[0];
  const requestedName = kind.toLowerCase();
  return types.find(
    (type) => requestedName === type.kind.toLowerCase() || requestedName === type.resource,
  );
}

/** Returns the kind that applies if a matcher names no kind. Source: KubeVirt ClusterSingularResourceName. */
export function findDefaultKind(role: MatcherRole): string {
  return (MATCHED_TYPES[role][0]?.kind ?? "").toLowerCase();
}

export type MatchedObjectLocation =
  | { readonly kind: "revision"; readonly name: string }
  | { readonly kind: "object"; readonly type: MatchedType; readonly name: string }
  | { readonly kind: "unknownKind"; readonly message: string };

function isSameObject(matcher: Matcher, ref: MatcherRef, role: MatcherRole): boolean {
  return (
    matcher.name === ref.name &&
    findMatchedType(role, matcher.kind) === findMatchedType(role, ref.kind)
  );
}

/**
 * Returns the matcher's `revisionName`, or else, like KubeVirt, the revision in the VM's status if it is a revision of the matched object.
 */
export function findUsedRevision(vm: VirtualMachine, role: MatcherRole): string | undefined {
  const matcher = findMatcher(vm, role);
  if (matcher === undefined) return undefined;
  const requestedName = matcher.revisionName ?? "";
  if (requestedName !== "") return requestedName;
  const ref = findMatcherRef(vm, role);
  const revisionName = ref?.controllerRevisionRef?.name ?? "";
  return ref !== undefined && revisionName !== "" && isSameObject(matcher, ref, role)
    ? revisionName
    : undefined;
}

export function locateMatchedObject(
  vm: VirtualMachine,
  role: MatcherRole,
): MatchedObjectLocation | undefined {
  const matcher = findMatcher(vm, role);
  if (matcher === undefined) return undefined;
  const revision = findUsedRevision(vm, role);
  if (revision !== undefined) return { kind: "revision", name: revision };
  const type = findMatchedType(role, matcher.kind);
  if (type !== undefined) return { kind: "object", type, name: matcher.name ?? "" };
  const fieldName = role === "instancetype" ? "InstancetypeMatcher" : "PreferenceMatcher";
  const message = `got unexpected kind in ${fieldName}: ${matcher.kind ?? ""}`;
  return { kind: "unknownKind", message };
}

export function buildNotFoundCause(role: MatcherRole, message: string): Cause {
  return {
    reason: "FieldValueNotFound",
    field: `spec.${role}`,
    message: `Failure to find ${role}: ${message}`,
  };
}

const INFERENCE_POLICIES: readonly string[] = ["Reject", "Ignore"];

function findNameCauses(matcher: Matcher, role: MatcherRole): readonly Cause[] {
  if ((matcher.name ?? "") !== "" || (matcher.inferFromVolume ?? "") !== "") return [];
  const message = `Either Name or InferFromVolume should be provided within the ${role} matcher`;
  return [{ reason: "FieldValueNotFound", field: `spec.${role}`, message }];
}

function listInferenceCauses(matcher: Matcher, role: MatcherRole): readonly Cause[] {
  if ((matcher.inferFromVolume ?? "") === "") return [];
  const forbiddenFields = (["name", "kind"] as const).filter(
    (field) => (matcher[field] ?? "") !== "",
  );
  return forbiddenFields.map((name): Cause => {
    const fieldName = name === "name" ? "Name" : "Kind";
    const message = `${fieldName} should not be provided when InferFromVolume is used within the ${role} matcher`;
    return { reason: "FieldValueNotFound", field: `spec.${role}.${name}`, message };
  });
}

function findPolicyCauses(matcher: Matcher, role: MatcherRole): readonly Cause[] {
  const policy = matcher.inferFromVolumeFailurePolicy;
  if (policy === undefined || INFERENCE_POLICIES.includes(policy)) return [];
  const message = `Invalid value '${policy}' for InferFromVolumeFailurePolicy`;
  const field = `spec.${role}.inferFromVolumeFailurePolicy`;
  return [{ reason: "FieldValueInvalid", field, message }];
}

function updateCauses(
  matcher: Matcher,
  oldMatcher: Matcher | undefined,
  role: MatcherRole,
): readonly Cause[] {
  const revision = oldMatcher?.revisionName ?? "";
  if (oldMatcher === undefined || revision === "" || oldMatcher.name === matcher.name) return [];
  if (revision !== matcher.revisionName) return [];
  const message = "the Matcher Name has been updated without updating the RevisionName";
  return [{ reason: "FieldValueInvalid", field: `spec.${role}.revisionName`, message }];
}

/** Validates a VM's matchers. The messages are from KubeVirt pkg/instancetype/webhooks/vm/mutator.go. */
export function validateMatchers(
  vm: VirtualMachine,
  oldVm: VirtualMachine | undefined,
): readonly Cause[] {
  return MATCHER_ROLES.flatMap((role) => {
    const matcher = findMatcher(vm, role);
    if (matcher === undefined) return [];
    return [
      ...updateCauses(matcher, oldVm && findMatcher(oldVm, role), role),
      ...findNameCauses(matcher, role),
      ...listInferenceCauses(matcher, role),
      ...findPolicyCauses(matcher, role),
    ];
  });
}
