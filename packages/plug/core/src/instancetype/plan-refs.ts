// SPDX-License-Identifier: Apache-2.0
// Which revisions of its parts a VM uses, as its status tells it, and which are to be made for that. Source: KubeVirt
// pkg/instancetype/revision/store.go.
import type { ControllerRevision, MatcherRef, VirtualMachine, VmStatus } from "@patchbay/api";
import { isEqual } from "../equal.ts";
import {
  defaultKindOf,
  matcherOf,
  PARTS,
  refFieldOf,
  refOf,
  usedRevisionOf,
  type Part,
} from "./parts.ts";
import type { ReadParts } from "./read-parts.ts";
import { revisionOf } from "./revision.ts";

/** Members of a VM's status; one that is undefined is to be taken away. */
export type PartRefs = {
  readonly [K in "instancetypeRef" | "preferenceRef"]?: VmStatus[K] | undefined;
};

/** Revisions that are to be made, and then what the VM's status is to tell of them. */
export interface RefsPlan {
  readonly revisions: readonly ControllerRevision[];
  readonly refs: PartRefs;
}

function refTo(vm: VirtualMachine, part: Part, revision: string): MatcherRef {
  const { name = "", kind = "" } = matcherOf(vm, part) ?? {};
  const controllerRevisionRef = { name: revision };
  return { name, kind: kind === "" ? defaultKindOf(part) : kind, controllerRevisionRef };
}

/** What the status is to tell of a part. Of one that is not there it tells what it told. */
function wantedRef(
  vm: VirtualMachine,
  part: Part,
  made: ReadonlyMap<Part, ControllerRevision>,
): MatcherRef | undefined {
  if (matcherOf(vm, part) === undefined) return undefined;
  const revision = usedRevisionOf(vm, part) ?? made.get(part)?.metadata.name;
  return revision === undefined ? refOf(vm, part) : refTo(vm, part, revision);
}

/** Undefined: all is told as it is. */
export function planRefs(vm: VirtualMachine, { live }: ReadParts): RefsPlan | undefined {
  const made = new Map(live.map(({ part, type, object }) => [part, revisionOf(vm, type, object)]));
  const refs = PARTS.flatMap((part) => {
    const wanted = wantedRef(vm, part, made);
    return isEqual(wanted, refOf(vm, part)) ? [] : [[refFieldOf(part), wanted] as const];
  });
  if (refs.length === 0) return undefined;
  return { revisions: [...made.values()], refs: Object.fromEntries(refs) };
}
