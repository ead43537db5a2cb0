// SPDX-License-Identifier: Apache-2.0
// Whether the ifaces that an edit plugs into a running guest can become NICs.
import {
  ifacePath,
  isAbsent,
  type BindingRegistry,
  type Cause,
  type FieldProblem,
  type Iface,
  type VmiSpec,
} from "@patchbay/api";
import { bindingIn } from "../../bindings/binding-of.ts";
import { findByName, ifacesOf } from "../../spec/nics.ts";

/** An edit of a specification that is at `base` of its object. */
export interface SpecEdit {
  readonly before: VmiSpec;
  readonly after: VmiSpec;
  readonly base: string;
}

/** Whether the edit asks for the iface: it was not there, or on its way out. */
function isPlugged({ name }: Iface, before: VmiSpec): boolean {
  const old = findByName(ifacesOf(before), name);
  return old === undefined || isAbsent(old);
}

/** What is wrong with ifaces that the edit asks for; `field` is below the iface. */
function causesOf(
  { before, after, base }: SpecEdit,
  problemOf: (iface: Iface) => FieldProblem | undefined,
): readonly Cause[] {
  return ifacesOf(after).flatMap((iface, index): readonly Cause[] => {
    if (isAbsent(iface) || !isPlugged(iface, before)) return [];
    const problem = problemOf(iface);
    if (problem === undefined) return [];
    const field = `${ifacePath(base, index)}.${problem.field}`;
    return [{ reason: "FieldValueNotSupported", field, message: problem.message }];
  });
}

/** Of a binding with a hook; no full sentence. */
export const NEEDS_START =
  "has a hook, which is asked at the start of a guest and joins no pod that runs; add the interface to the VM's specification, or while the VM is stopped";

/** Ifaces that an edit plugs into a running guest have a binding that is built; those of before are not judged. */
export function pluggedBindingCauses(edit: SpecEdit, registry: BindingRegistry): readonly Cause[] {
  return causesOf(edit, (iface) => {
    const binding = bindingIn(edit.after, iface, registry);
    return binding.kind === "refused" ? binding : undefined;
  });
}

/** The same of an edit of a running VMI itself, where nothing waits for the next start. */
export function unpluggableCauses(edit: SpecEdit, registry: BindingRegistry): readonly Cause[] {
  return causesOf(edit, (iface) => {
    const binding = bindingIn(edit.after, iface, registry);
    const hasHook = binding.kind !== "refused" && binding.hasHook === true;
    return hasHook ? { field: "binding", message: NEEDS_START } : undefined;
  });
}
