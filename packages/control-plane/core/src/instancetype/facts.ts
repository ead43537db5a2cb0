// SPDX-License-Identifier: Apache-2.0
// Facts about a VM's instancetype and preference, and their revisions. Source: KubeVirt
// pkg/instancetype/revision/store.go.
import type { VirtualMachine, MatcherRef, VmStatus } from "@patchbay/api";
import type { ControllerRevision } from "@patchbay/api/kubernetes";
import type { FieldProblem } from "@patchbay/api/validate";
import {
  hasParts,
  PARTS,
  findMatcherRef,
  findDefaultKind,
  findMatcher,
  findReferenceField,
  findUsedRevision,
  type Part,
} from "./parts.ts";
import { withPartNames } from "./expand.ts";
import { expandWith, type MissingPart, type ReadParts } from "./read-parts.ts";
import { isEqual } from "@patchbay/base";
import { buildRevision } from "./revision.ts";

/** Changed references in a VM's status. virt-controller removes a field whose value is undefined. */
type PartRefs = {
  readonly [K in "instancetypeRef" | "preferenceRef"]?: VmStatus[K] | undefined;
};

export interface RefsPlan {
  readonly revisions: readonly ControllerRevision[];
  readonly refs: PartRefs;
}

function buildRef(vm: VirtualMachine, part: Part, revision: string): MatcherRef {
  const { name = "", kind = "" } = findMatcher(vm, part) ?? {};
  const controllerRevisionRef = { name: revision };
  return { name, kind: kind === "" ? findDefaultKind(part) : kind, controllerRevisionRef };
}

/** Returns the reference for the VM's status. Returns undefined without a matcher, and the current reference if no revision exists. */
function buildWantedReference(
  vm: VirtualMachine,
  part: Part,
  createdRevisions: ReadonlyMap<Part, ControllerRevision>,
): MatcherRef | undefined {
  if (findMatcher(vm, part) === undefined) return undefined;
  const revision = findUsedRevision(vm, part) ?? createdRevisions.get(part)?.metadata.name;
  return revision === undefined ? findMatcherRef(vm, part) : buildRef(vm, part, revision);
}

function planRefs(vm: VirtualMachine, { live }: ReadParts): RefsPlan | undefined {
  const createdRevisions = new Map(
    live.map(({ part, type, object }) => [part, buildRevision(vm, type, object)]),
  );
  const refs = PARTS.flatMap((part) => {
    const wantedReference = buildWantedReference(vm, part, createdRevisions);
    return isEqual(wantedReference, findMatcherRef(vm, part))
      ? []
      : [[findReferenceField(part), wantedReference] as const];
  });
  if (refs.length === 0) return undefined;
  return { revisions: [...createdRevisions.values()], refs: Object.fromEntries(refs) };
}

export interface PartsFacts {
  readonly expanded: VirtualMachine;
  readonly missing: readonly MissingPart[];
  readonly problems: readonly FieldProblem[];
  readonly refs: RefsPlan | undefined;
}

/** Checks whether the VM has an instancetype or preference, or its status still references one. */
export function usesParts(vm: VirtualMachine): boolean {
  return hasParts(vm) || PARTS.some((part) => findMatcherRef(vm, part) !== undefined);
}

/** Plans no revision while fields conflict, because a revision is not updated when a user corrects the instancetype. */
export function collectPartsFacts(vm: VirtualMachine, readParts: ReadParts): PartsFacts {
  const { missing } = readParts;
  const { vm: expanded, causes } = expandWith(vm, readParts);
  const problems = missing.length > 0 ? [] : causes;
  return {
    expanded: withPartNames(expanded, vm),
    missing,
    problems: problems.map(({ field, message }) => ({ field, message })),
    refs: causes.length > 0 ? undefined : planRefs(vm, readParts),
  };
}
