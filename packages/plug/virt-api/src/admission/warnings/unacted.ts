// SPDX-License-Identifier: Apache-2.0
// What a person is told about fields that are not acted on.
import {
  unactedFieldsOfVm,
  unactedFieldsOfVmi,
  unbuiltAnnotations,
  type BindingRegistry,
  type FieldProblem,
  type UnactedFields,
} from "@patchbay/api";
import { bindingProblems } from "@patchbay/core";
import { metadataOf, vmiSpecOf, type Subject } from "../subject.ts";

/** Fields that are named in one warning; the rest is counted, so that all warnings reach the client. */
const NAMED_MAX = 10;

/** What a person is told about. */
interface Told extends UnactedFields {
  /** Bindings that cannot be. */
  readonly unbound: readonly FieldProblem[];
}

const NOTHING: Told = { unbuilt: [], harmless: [], unbound: [] };

function fieldsOf(subject: Subject, bindings: BindingRegistry): Told {
  const unbound = (base: string): Told["unbound"] =>
    bindingProblems(vmiSpecOf(subject), base, bindings);
  const own = unbuiltAnnotations(metadataOf(subject), "metadata");
  if (subject.kind === "vm") {
    const { unbuilt, harmless } = unactedFieldsOfVm(subject.vm.spec);
    // On the VM itself nobody looks for it: the guest's are the template's.
    const unread = own.map(({ field }) => field);
    return { unbuilt, harmless: [...harmless, ...unread], unbound: unbound("spec.template.spec") };
  }
  const { unbuilt, harmless } = unactedFieldsOfVmi(subject.vmi.spec, "spec");
  return { unbuilt: [...unbuilt, ...own], harmless, unbound: unbound("spec") };
}

function sayFields(fields: readonly string[]): string {
  const more = fields.length - NAMED_MAX;
  const named = fields.slice(0, NAMED_MAX).join(", ");
  return more > 0 ? `${named} and ${String(more)} more` : named;
}

function isSame(one: FieldProblem, other: FieldProblem): boolean {
  return one.field === other.field && one.message === other.message;
}

/** One warning for the fields that keep the guest from being started, one for each binding that cannot be, and one for those that are only kept; none for what was there before. */
export function unactedWarnings(
  subject: Subject,
  old: Subject | undefined,
  bindings: BindingRegistry,
): readonly string[] {
  const now = fieldsOf(subject, bindings);
  const before = old === undefined ? NOTHING : fieldsOf(old, bindings);
  const known = new Set([...before.unbuilt.map(({ field }) => field), ...before.harmless]);
  const unbuilt = now.unbuilt.map(({ field }) => field).filter((field) => !known.has(field));
  const harmless = now.harmless.filter((field) => !known.has(field));
  const unbound = now.unbound.filter(
    (problem) => !before.unbound.some((it) => isSame(it, problem)),
  );
  const kept = `the ${subject.kind === "vm" ? "VM" : "VMI"} is stored but cannot be started`;
  return [
    ...(unbuilt.length === 0 ? [] : [`${kept}: not supported yet: ${sayFields(unbuilt)}`]),
    ...unbound.slice(0, NAMED_MAX).map(({ field, message }) => `${kept}: ${field}: ${message}`),
    ...(harmless.length === 0 ? [] : [`stored without effect: ${sayFields(harmless)}`]),
  ];
}
