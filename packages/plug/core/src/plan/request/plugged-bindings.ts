// SPDX-License-Identifier: Apache-2.0
// Whether the ifaces that an edit plugs into a running guest can become NICs.
import {
  ifacePath,
  isAbsent,
  type BindingRegistry,
  type Cause,
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

/** Ifaces that an edit plugs into a running guest have a binding that is built; those of before are not judged. */
export function pluggedBindingCauses(
  { before, after, base }: SpecEdit,
  registry: BindingRegistry,
): readonly Cause[] {
  return ifacesOf(after).flatMap((iface, index): readonly Cause[] => {
    const binding = bindingIn(after, iface, registry);
    if (binding.kind !== "refused" || isAbsent(iface) || !isPlugged(iface, before)) return [];
    const field = `${ifacePath(base, index)}.${binding.field}`;
    return [{ reason: "FieldValueNotSupported", field, message: binding.message }];
  });
}
