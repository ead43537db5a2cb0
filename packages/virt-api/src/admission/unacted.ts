// SPDX-License-Identifier: Apache-2.0
// What a person is told about fields that are not acted on.
import { unactedFieldsOfVm, unactedFieldsOfVmi, type UnactedFields } from "@patchbay/api";
import type { Subject } from "./subject.ts";

/** Fields that are named in one warning; the rest is counted, so that all warnings reach the client. */
const NAMED_MAX = 10;

function fieldsOf(subject: Subject): UnactedFields {
  return subject.kind === "vm"
    ? unactedFieldsOfVm(subject.vm.spec)
    : unactedFieldsOfVmi(subject.vmi.spec, "spec");
}

function sayFields(fields: readonly string[]): string {
  const more = fields.length - NAMED_MAX;
  const named = fields.slice(0, NAMED_MAX).join(", ");
  return more > 0 ? `${named} and ${String(more)} more` : named;
}

/** One warning for the fields that keep the guest from being started, and one for those that are only kept; none for what was there before. */
export function unactedWarnings(subject: Subject, old: Subject | undefined): readonly string[] {
  const now = fieldsOf(subject);
  const before = old === undefined ? { unbuilt: [], harmless: [] } : fieldsOf(old);
  const known = new Set([...before.unbuilt.map(({ field }) => field), ...before.harmless]);
  const unbuilt = now.unbuilt.map(({ field }) => field).filter((field) => !known.has(field));
  const harmless = now.harmless.filter((field) => !known.has(field));
  const name = subject.kind === "vm" ? "VM" : "VMI";
  return [
    ...(unbuilt.length === 0
      ? []
      : [`the ${name} is kept and cannot be started: not supported yet: ${sayFields(unbuilt)}`]),
    ...(harmless.length === 0 ? [] : [`kept without effect: ${sayFields(harmless)}`]),
  ];
}
