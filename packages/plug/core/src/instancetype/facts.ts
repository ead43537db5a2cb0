// SPDX-License-Identifier: Apache-2.0
// What virt-controller knows of the parts of a VM.
import type { FieldProblem, VirtualMachine } from "@patchbay/api";
import { hasParts, PARTS, refOf } from "./parts.ts";
import { withPartNames } from "./expand.ts";
import { planRefs, type RefsPlan } from "./plan-refs.ts";
import { expandedBy, type MissingPart, type ReadParts } from "./read-parts.ts";

/** What a VM takes from elsewhere. */
export interface PartsFacts {
  /** The VM as its parts make it; as it is, where that cannot be. */
  readonly expanded: VirtualMachine;
  readonly missing: readonly MissingPart[];
  /** What of it and its parts does not go together. */
  readonly problems: readonly FieldProblem[];
  /** Revisions that are to be made and told of before anything else. */
  readonly refs: RefsPlan | undefined;
}

/** Whether there is anything to be known: the VM has parts, or its status tells of some. */
export function concernsParts(vm: VirtualMachine): boolean {
  return hasParts(vm) || PARTS.some((part) => refOf(vm, part) !== undefined);
}

/** Of parts that were read. What does not go together is remembered by no revision: who changes it is judged anew. */
export function partsFactsOf(vm: VirtualMachine, read: ReadParts): PartsFacts {
  const { missing } = read;
  const { vm: expanded, causes } = expandedBy(vm, read);
  const problems = missing.length > 0 ? [] : causes;
  return {
    expanded: withPartNames(expanded, vm),
    missing,
    problems: problems.map(({ field, message }) => ({ field, message })),
    refs: causes.length > 0 ? undefined : planRefs(vm, read),
  };
}
