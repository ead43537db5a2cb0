// SPDX-License-Identifier: Apache-2.0
// Whether a VM or VMI may be stored as it is now, given what was stored before: rules judge what changes.
import type { Cause } from "../kinds/kubernetes/meta.ts";
import type { VmSpec } from "../kinds/vm.ts";
import type { VmiSpec } from "../kinds/vmi-spec.ts";
import { validateVmiSpec, validateVmSpec } from "./spec.ts";

/** The cause with names in place of indexes: an entry that was moved is the same entry. */
function identityOf(cause: Cause, { networks = [], volumes = [], domain }: VmiSpec): string {
  const { interfaces = [], disks = [] } = domain.devices ?? {};
  const entries = { networks, interfaces, volumes, disks };
  const text = `${cause.reason} ${cause.field} ${cause.message}`;
  return text.replaceAll(
    /(networks|interfaces|volumes|disks)\[(\d+)\]/g,
    // The expression matches nothing but these keys.
    (_match, key: keyof typeof entries, index: string) =>
      `${key}[${entries[key][Number(index)]?.name ?? index}]`,
  );
}

interface Judged {
  readonly spec: VmiSpec;
  readonly causes: readonly Cause[];
}

/** What was wrong before is no fault of this change: it must not stand in the way of an unplug. */
function newCauses(before: Judged, after: Judged): readonly Cause[] {
  const known = new Set(before.causes.map((cause) => identityOf(cause, before.spec)));
  return after.causes.filter((cause) => !known.has(identityOf(cause, after.spec)));
}

/** Judges a VM specification that takes the place of `before`; undefined: it is new. */
export function validateVmChange(before: VmSpec | undefined, after: VmSpec): readonly Cause[] {
  if (before === undefined) return validateVmSpec(after, "create");
  return newCauses(
    { spec: before.template.spec, causes: validateVmSpec(before) },
    { spec: after.template.spec, causes: validateVmSpec(after) },
  );
}

/** Judges a VMI specification that takes the place of `before`; undefined: it is new. */
export function validateVmiChange(before: VmiSpec | undefined, after: VmiSpec): readonly Cause[] {
  if (before === undefined) return validateVmiSpec(after, "spec", "create");
  return newCauses(
    { spec: before, causes: validateVmiSpec(before, "spec") },
    { spec: after, causes: validateVmiSpec(after, "spec") },
  );
}
