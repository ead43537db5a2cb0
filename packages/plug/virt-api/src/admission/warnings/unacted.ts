// SPDX-License-Identifier: Apache-2.0
// What a person is told about fields that are not acted on.
import {
  hookSidecarProblems,
  names,
  unactedFieldsOfVm,
  unactedFieldsOfVmi,
  type FieldProblem,
  type NetworkConfig,
  type UnactedFields,
} from "@patchbay/api";
import { bindingProblems } from "@patchbay/core";
import { metadataOf, vmiSpecOf, type Subject } from "../subject.ts";

/** Fields that are named in one warning; the rest is counted, so that all warnings reach the client. */
const NAMED_MAX = 10;

/** What a person is told about. */
interface Told extends UnactedFields {
  /** Bindings and hooks that cannot be. */
  readonly refused: readonly FieldProblem[];
}

const NOTHING: Told = { unbuilt: [], harmless: [], refused: [] };

type SubjectMetadata = Parameters<typeof hookSidecarProblems>[0];

/** On the VM itself nobody looks for hooks: the guest's are the template's. */
function unreadHooks(metadata: SubjectMetadata): readonly string[] {
  const name = names.HOOK_SIDECARS_ANNOTATION;
  return metadata?.annotations?.[name] === undefined ? [] : [`metadata.annotations[${name}]`];
}

/** A launcher's networks are those of the specification. */
function unreadNetworks(base: string, metadata: SubjectMetadata): readonly string[] {
  const name = names.NETWORKS_ANNOTATION;
  if (metadata?.annotations?.[name] === undefined) return [];
  return [`${base}.annotations[${name}] (declare the networks in spec.networks beside it)`];
}

function fieldsOf(subject: Subject, { bindings, allowsHooks }: NetworkConfig): Told {
  const refusedAt = (base: string, metadata: SubjectMetadata): Told["refused"] => [
    ...bindingProblems(vmiSpecOf(subject), `${base}spec`, bindings),
    ...hookSidecarProblems(metadata, `${base}metadata`, allowsHooks),
  ];
  if (subject.kind === "vm") {
    const { template } = subject.vm.spec;
    const { unbuilt, harmless } = unactedFieldsOfVm(subject.vm.spec);
    const refused = refusedAt("spec.template.", template.metadata);
    const unread = [
      ...unreadHooks(metadataOf(subject)),
      ...unreadNetworks("spec.template.metadata", template.metadata),
    ];
    return { unbuilt, harmless: [...harmless, ...unread], refused };
  }
  const { unbuilt, harmless } = unactedFieldsOfVmi(subject.vmi.spec, "spec");
  const { metadata } = subject.vmi;
  const unread = unreadNetworks("metadata", metadata);
  return { unbuilt, harmless: [...harmless, ...unread], refused: refusedAt("", metadata) };
}

function sayFields(fields: readonly string[]): string {
  const more = fields.length - NAMED_MAX;
  const named = fields.slice(0, NAMED_MAX).join(", ");
  return more > 0 ? `${named} and ${String(more)} more` : named;
}

function isSame(one: FieldProblem, other: FieldProblem): boolean {
  return one.field === other.field && one.message === other.message;
}

/** One warning for the fields that keep the guest from being started, one for each binding and hook that cannot be, and one for those that are only kept; none for what was there before. */
export function unactedWarnings(
  subject: Subject,
  old: Subject | undefined,
  config: NetworkConfig,
): readonly string[] {
  const now = fieldsOf(subject, config);
  const before = old === undefined ? NOTHING : fieldsOf(old, config);
  const known = new Set([...before.unbuilt.map(({ field }) => field), ...before.harmless]);
  const unbuilt = now.unbuilt.map(({ field }) => field).filter((field) => !known.has(field));
  const harmless = now.harmless.filter((field) => !known.has(field));
  const refused = now.refused.filter(
    (problem) => !before.refused.some((it) => isSame(it, problem)),
  );
  const kept = `the ${subject.kind === "vm" ? "VM" : "VMI"} is stored but cannot be started`;
  return [
    ...(unbuilt.length === 0 ? [] : [`${kept}: not supported yet: ${sayFields(unbuilt)}`]),
    ...refused.slice(0, NAMED_MAX).map(({ field, message }) => `${kept}: ${field}: ${message}`),
    ...(harmless.length === 0 ? [] : [`stored without effect: ${sayFields(harmless)}`]),
  ];
}
