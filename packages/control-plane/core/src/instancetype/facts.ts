// SPDX-License-Identifier: Apache-2.0
// Facts for virt-controller about a VM's instancetype and preference, and their revisions. Source: KubeVirt
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
  refField,
  findUsedRevision,
  type Part,
} from "./parts.ts";
import { withPartNames } from "./expand.ts";
import { expandWith, type MissingPart, type ReadParts } from "./read-parts.ts";
import { isEqual } from "@patchbay/base";
import { buildRevision } from "./revision.ts";

/** Changed fields of a VM's status. A field with the value undefined is removed. */
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

/** Returns the reference that the status must have; the current one while the part is missing. */
function wantedRef(
  vm: VirtualMachine,
  part: Part,
  created: ReadonlyMap<Part, ControllerRevision>,
): MatcherRef | undefined {
  if (findMatcher(vm, part) === undefined) return undefined;
  const revision = findUsedRevision(vm, part) ?? created.get(part)?.metadata.name;
  return revision === undefined ? findMatcherRef(vm, part) : buildRef(vm, part, revision);
}

function planRefs(vm: VirtualMachine, { live }: ReadParts): RefsPlan | undefined {
  const created = new Map(
    live.map(({ part, type, object }) => [part, buildRevision(vm, type, object)]),
  );
  const refs = PARTS.flatMap((part) => {
    const wanted = wantedRef(vm, part, created);
    return isEqual(wanted, findMatcherRef(vm, part)) ? [] : [[refField(part), wanted] as const];
  });
  if (refs.length === 0) return undefined;
  return { revisions: [...created.values()], refs: Object.fromEntries(refs) };
}

export interface PartsFacts {
  readonly expanded: VirtualMachine;
  readonly missing: readonly MissingPart[];
  readonly problems: readonly FieldProblem[];
  readonly refs: RefsPlan | undefined;
}

/** Returns whether the VM has an instancetype or preference, or its status still refers to one. */
export function usesParts(vm: VirtualMachine): boolean {
  return hasParts(vm) || PARTS.some((part) => findMatcherRef(vm, part) !== undefined);
}

/** Collects the facts. Plans no revision while there are conflicts, so that a corrected instancetype is read again. */
export function collectPartsFacts(vm: VirtualMachine, read: ReadParts): PartsFacts {
  const { missing } = read;
  const { vm: expanded, causes } = expandWith(vm, read);
  const problems = missing.length > 0 ? [] : causes;
  return {
    expanded: withPartNames(expanded, vm),
    missing,
    problems: problems.map(({ field, message }) => ({ field, message })),
    refs: causes.length > 0 ? undefined : planRefs(vm, read),
  };
}
