// SPDX-License-Identifier: Apache-2.0
// Warnings for valid VMs and VMIs that will not work as written.
import {
  validateHookSidecars,
  names,
  unactedFieldsOfVm,
  unactedFieldsOfVmi,
  type FieldProblem,
  type NetworkConfig,
  type UnactedFields,
  type BindingRegistry,
  type VirtualMachineInstance,
  type VmiSpec,
  type VirtualMachine,
  parseNadName,
} from "@patchbay/api";
import { findBindingProblems, ifacesWithoutPort, networkNameOf } from "@patchbay/core/nics";
import { AppError, isEqual, messageOf } from "@patchbay/base";
import { metadataOf, vmiSpecOf, type Subject } from "./subject.ts";
import type { Deps } from "../deps.ts";
import { hasNad, findNearestNetwork } from "../networks.ts";
import { listNewNetworks, type Specs } from "./new-networks.ts";

/** Limit of fields per warning, so that all warnings reach the client. */
const NAMED_MAX = 10;

interface FieldWarnings extends UnactedFields {
  readonly unavailable: readonly FieldProblem[];
}

const NO_WARNINGS: FieldWarnings = { unbuilt: [], harmless: [], unavailable: [] };

type SubjectMetadata = Parameters<typeof validateHookSidecars>[0];

/** Hooks on the VM itself have no effect; the template's metadata holds them. */
function findIgnoredHooks(metadata: SubjectMetadata): readonly string[] {
  const name = names.HOOK_SIDECARS_ANNOTATION;
  return metadata?.annotations?.[name] === undefined ? [] : [`metadata.annotations[${name}]`];
}

/** The launcher's networks come from the specification. */
function findIgnoredNetworks(base: string, metadata: SubjectMetadata): readonly string[] {
  const name = names.NETWORKS_ANNOTATION;
  if (metadata?.annotations?.[name] === undefined) return [];
  return [`${base}.annotations[${name}] (declare the networks in spec.networks beside it)`];
}

function collectWarnings(
  subject: Subject,
  { bindings, allowsHooks }: NetworkConfig,
): FieldWarnings {
  const findUnavailable = (
    base: string,
    metadata: SubjectMetadata,
  ): FieldWarnings["unavailable"] => [
    ...findBindingProblems(vmiSpecOf(subject), `${base}spec`, bindings),
    ...validateHookSidecars(metadata, `${base}metadata`, allowsHooks),
  ];
  if (subject.kind === "vm") {
    const { template } = subject.vm.spec;
    const { unbuilt, harmless } = unactedFieldsOfVm(subject.vm.spec);
    const unavailable = findUnavailable("spec.template.", template.metadata);
    const ignored = [
      ...findIgnoredHooks(metadataOf(subject)),
      ...findIgnoredNetworks("spec.template.metadata", template.metadata),
    ];
    return { unbuilt, harmless: [...harmless, ...ignored], unavailable };
  }
  const { unbuilt, harmless } = unactedFieldsOfVmi(subject.vmi.spec, "spec");
  const { metadata } = subject.vmi;
  const ignored = findIgnoredNetworks("metadata", metadata);
  return {
    unbuilt,
    harmless: [...harmless, ...ignored],
    unavailable: findUnavailable("", metadata),
  };
}

function printFields(fields: readonly string[]): string {
  const more = fields.length - NAMED_MAX;
  const named = fields.slice(0, NAMED_MAX).join(", ");
  return more > 0 ? `${named} and ${String(more)} more` : named;
}

function isSameProblem(one: FieldProblem, other: FieldProblem): boolean {
  return one.field === other.field && one.message === other.message;
}

/** Warns of new fields that prevent a start, of unavailable bindings and hooks, and of fields without effect. */
export function listFieldWarnings(
  subject: Subject,
  old: Subject | undefined,
  config: NetworkConfig,
): readonly string[] {
  const now = collectWarnings(subject, config);
  const before = old === undefined ? NO_WARNINGS : collectWarnings(old, config);
  const known = new Set([...before.unbuilt.map(({ field }) => field), ...before.harmless]);
  const unbuilt = now.unbuilt.map(({ field }) => field).filter((field) => !known.has(field));
  const harmless = now.harmless.filter((field) => !known.has(field));
  const unavailable = now.unavailable.filter(
    (problem) => !before.unavailable.some((it) => isSameProblem(it, problem)),
  );
  const prefix = `the ${subject.kind === "vm" ? "VM" : "VMI"} is stored but cannot be started`;
  return [
    ...(unbuilt.length === 0 ? [] : [`${prefix}: not supported yet: ${printFields(unbuilt)}`]),
    ...unavailable
      .slice(0, NAMED_MAX)
      .map(({ field, message }) => `${prefix}: ${field}: ${message}`),
    ...(harmless.length === 0 ? [] : [`stored without effect: ${printFields(harmless)}`]),
  ];
}

/** Warns for each interface of `spec` that must wait for a free port, or for a restart because of its model. */
export function listCapacityWarnings(
  vmi: VirtualMachineInstance | undefined,
  spec: VmiSpec,
  bindings: BindingRegistry,
): readonly string[] {
  if (vmi === undefined) return [];
  return [...ifacesWithoutPort(vmi, spec, bindings)].map(([name, { reason, message }]) => {
    const until = reason === "NoFreePciePort" ? " until a port is free" : "";
    return `interface "${name}" waits${until}: ${message}`;
  });
}

type Spec = VirtualMachine["spec"];

/** Warns if the cluster does not serve DataVolumes. Skips templates that were stored before. */
export async function listDataVolumeWarnings(
  deps: Deps,
  specs: { readonly spec: Spec; readonly old: Spec | undefined },
): Promise<readonly string[]> {
  const { dataVolumeTemplates = [] } = specs.spec;
  const isNew = !isEqual(dataVolumeTemplates, specs.old?.dataVolumeTemplates ?? []);
  if (dataVolumeTemplates.length === 0 || !isNew || (await deps.servesDataVolumes())) return [];
  const object = dataVolumeTemplates.map(({ metadata }) => metadata?.name ?? "").join(", ");
  const error = new AppError("CONTROLLER_NO_DATA_VOLUMES", { object });
  return [`the VM is stored but cannot be started: ${messageOf(error)}`];
}

export async function listMissingNetworkWarnings(
  deps: Deps,
  specs: Specs,
  namespace: string,
): Promise<readonly string[]> {
  const warnings = await Promise.all(
    listNewNetworks(specs).map(async (network) => {
      const name = network.multus?.networkName ?? "";
      if (parseNadName(name) === undefined) return [];
      try {
        if (await hasNad(deps.cachedReader, name, namespace)) return [];
      } catch (error) {
        deps.log.warn("cannot look up a network", { network: name, err: messageOf(error) });
        return [];
      }
      const full = networkNameOf(network, namespace) ?? name;
      const nearest = findNearestNetwork(deps, name, namespace);
      const suggestion = nearest === undefined ? "" : ` (the nearest name is "${nearest}")`;
      return [
        `network "${network.name}": NetworkAttachmentDefinition "${full}" does not exist yet${suggestion}; the interface waits for it`,
      ];
    }),
  );
  return warnings.flat();
}
