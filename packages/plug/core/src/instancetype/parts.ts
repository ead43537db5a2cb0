// SPDX-License-Identifier: Apache-2.0
// Which instancetype and which preference a VM has, and where what they say is to be read.
import {
  CLUSTER_INSTANCETYPES,
  CLUSTER_PREFERENCES,
  INSTANCETYPES,
  PREFERENCES,
  type Cause,
  type Instancetype,
  type InstancetypeSpec,
  type Matcher,
  type MatcherRef,
  type Preference,
  type PreferenceSpec,
  type ResourceType,
  type VirtualMachine,
} from "@patchbay/api";

/** What a VM can be made of beside its template: fields of its specification. */
export const PARTS = ["instancetype", "preference"] as const;
/** One of them. */
export type Part = (typeof PARTS)[number];

/** An instancetype or a preference. */
export type PartObject = Instancetype | Preference;
/** How such an object is addressed. */
export type PartType = ResourceType<Instancetype> | ResourceType<Preference>;

/** What a VM's parts say; absent: the VM has no such part. */
export interface Parts {
  readonly instancetype?: InstancetypeSpec;
  readonly preference?: PreferenceSpec;
}

const TYPES: Readonly<Record<Part, readonly PartType[]>> = {
  instancetype: [CLUSTER_INSTANCETYPES, INSTANCETYPES],
  preference: [CLUSTER_PREFERENCES, PREFERENCES],
};
const REFS = { instancetype: "instancetypeRef", preference: "preferenceRef" } as const;

/** The member of a VM's status that tells which revision of a part is used. */
export function refFieldOf(part: Part): (typeof REFS)[Part] {
  return REFS[part];
}

/** What a VM says of a part; undefined: it has none. */
export function matcherOf(vm: VirtualMachine, part: Part): Matcher | undefined {
  return vm.spec[part];
}

/** What the VM's status tells of a part. */
export function refOf(vm: VirtualMachine, part: Part): MatcherRef | undefined {
  return vm.status?.[REFS[part]];
}

/** Whether a VM has any part. */
export function hasParts(vm: VirtualMachine): boolean {
  return PARTS.some((part) => matcherOf(vm, part) !== undefined);
}

/** The kind that a matcher means, singular or plural and in any case; the cluster's own when it does not say. */
export function partTypeOf(part: Part, kind: string | undefined): PartType | undefined {
  const types = TYPES[part];
  if (kind === undefined || kind === "") return types[0];
  const asked = kind.toLowerCase();
  return types.find((type) => asked === type.kind.toLowerCase() || asked === type.resource);
}

/** The kind as it is written into a VM that does not say it. Source: KubeVirt ClusterSingularResourceName. */
export function defaultKindOf(part: Part): string {
  return (TYPES[part][0]?.kind ?? "").toLowerCase();
}

/** Where what a part says is. */
export type PartPlace =
  | { readonly kind: "revision"; readonly name: string }
  | { readonly kind: "object"; readonly type: PartType; readonly name: string }
  | { readonly kind: "nowhere"; readonly message: string };

function isSameObject(matcher: Matcher, ref: MatcherRef, part: Part): boolean {
  return matcher.name === ref.name && partTypeOf(part, matcher.kind) === partTypeOf(part, ref.kind);
}

/** The revision that a VM uses of a part; undefined: it uses none yet. Source: KubeVirt, by which the VM's word counts first. */
export function usedRevisionOf(vm: VirtualMachine, part: Part): string | undefined {
  const matcher = matcherOf(vm, part);
  if (matcher === undefined) return undefined;
  const asked = matcher.revisionName ?? "";
  if (asked !== "") return asked;
  const ref = refOf(vm, part);
  const used = ref?.controllerRevisionRef?.name ?? "";
  return ref !== undefined && used !== "" && isSameObject(matcher, ref, part) ? used : undefined;
}

/** Where what a VM's part says is to be read; undefined: the VM has no such part. */
export function partPlaceOf(vm: VirtualMachine, part: Part): PartPlace | undefined {
  const matcher = matcherOf(vm, part);
  if (matcher === undefined) return undefined;
  const revision = usedRevisionOf(vm, part);
  if (revision !== undefined) return { kind: "revision", name: revision };
  const type = partTypeOf(part, matcher.kind);
  if (type !== undefined) return { kind: "object", type, name: matcher.name ?? "" };
  const word = part === "instancetype" ? "InstancetypeMatcher" : "PreferenceMatcher";
  const message = `got unexpected kind in ${word}: ${matcher.kind ?? ""}`;
  return { kind: "nowhere", message };
}

/** A part that is not there. Source: KubeVirt, whose words these are. */
export function notFoundCause(part: Part, message: string): Cause {
  return {
    reason: "FieldValueNotFound",
    field: `spec.${part}`,
    message: `Failure to find ${part}: ${message}`,
  };
}
