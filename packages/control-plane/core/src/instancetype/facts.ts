// SPDX-License-Identifier: Apache-2.0
// Facts about a VM's instancetype and preference, and their revisions. Source: KubeVirt
// pkg/instancetype/revision/store.go.
import type { VirtualMachine, MatcherRef, VmStatus } from "@patchbay/api";
import type { ControllerRevision } from "@patchbay/api/kubernetes";
import type { FieldProblem } from "@patchbay/api/validate";
import {
  hasMatcher,
  MATCHER_ROLES,
  findMatcherRef,
  findDefaultKind,
  findMatcher,
  findReferenceField,
  findUsedRevision,
  type MatcherRole,
} from "./matchers.ts";
import { withInstancetypeNames } from "./expand.ts";
import {
  expandWith,
  type MissingInstancetype,
  type ReadInstancetypes,
} from "./read-instancetypes.ts";
import { isEqual } from "@patchbay/base";
import { buildRevision } from "./revision.ts";

/** Changed references in a VM's status. virt-controller removes a field whose value is undefined. */
type InstancetypeRefs = {
  readonly [K in "instancetypeRef" | "preferenceRef"]?: VmStatus[K] | undefined;
};

export interface RefsPlan {
  readonly revisions: readonly ControllerRevision[];
  readonly refs: InstancetypeRefs;
}

function buildRef(vm: VirtualMachine, role: MatcherRole, revision: string): MatcherRef {
  const { name = "", kind = "" } = findMatcher(vm, role) ?? {};
  const controllerRevisionRef = { name: revision };
  return { name, kind: kind === "" ? findDefaultKind(role) : kind, controllerRevisionRef };
}

/**
 * Builds the VM status's reference to the instancetype or preference and its revision. Returns undefined if the spec has no matcher.
 * If no revision exists, returns the reference that the status already contains.
 */
function buildWantedReference(
  vm: VirtualMachine,
  role: MatcherRole,
  createdRevisions: ReadonlyMap<MatcherRole, ControllerRevision>,
): MatcherRef | undefined {
  if (findMatcher(vm, role) === undefined) return undefined;
  const revision = findUsedRevision(vm, role) ?? createdRevisions.get(role)?.metadata.name;
  return revision === undefined ? findMatcherRef(vm, role) : buildRef(vm, role, revision);
}

function planRefs(vm: VirtualMachine, { live }: ReadInstancetypes): RefsPlan | undefined {
  const createdRevisions = new Map(
    live.map(({ role, type, object }) => [role, buildRevision(vm, type, object)]),
  );
  const refs = MATCHER_ROLES.flatMap((role) => {
    const wantedReference = buildWantedReference(vm, role, createdRevisions);
    return isEqual(wantedReference, findMatcherRef(vm, role))
      ? []
      : [[findReferenceField(role), wantedReference] as const];
  });
  if (refs.length === 0) return undefined;
  return { revisions: [...createdRevisions.values()], refs: Object.fromEntries(refs) };
}

export interface InstancetypeFacts {
  readonly expanded: VirtualMachine;
  readonly missing: readonly MissingInstancetype[];
  readonly problems: readonly FieldProblem[];
  readonly refs: RefsPlan | undefined;
}

export function usesInstancetype(vm: VirtualMachine): boolean {
  return hasMatcher(vm) || MATCHER_ROLES.some((role) => findMatcherRef(vm, role) !== undefined);
}

/**
 * Collects the facts for virt-controller. Plans no revisions (`refs`) while an instancetype or preference is missing. Plans none while
 * fields conflict either, because a revision would preserve the conflict after a user corrects the instancetype.
 */
export function collectInstancetypeFacts(
  vm: VirtualMachine,
  found: ReadInstancetypes,
): InstancetypeFacts {
  const { missing } = found;
  const { vm: expanded, causes } = expandWith(vm, found);
  const problems = missing.length > 0 ? [] : causes;
  return {
    expanded: withInstancetypeNames(expanded, vm),
    missing,
    problems: problems.map(({ field, message }) => ({ field, message })),
    refs: causes.length > 0 ? undefined : planRefs(vm, found),
  };
}
