// SPDX-License-Identifier: Apache-2.0
// Warnings about VMs and VMIs that are accepted: fields without effect, missing networks, and reasons why a guest cannot start.
import {
  names,
  type BindingRegistry,
  type NetworkConfig,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VmiSpec,
} from "@patchbay/api";
import { validateHookSidecars } from "@patchbay/api/annotations";
import {
  listUnsupportedVmFields,
  listUnsupportedVmiFields,
  type FieldProblem,
  type UnsupportedFields,
} from "@patchbay/api/validate";
import { parseNadName } from "@patchbay/api/values";
import { AppError, isEqual, messageOf } from "@patchbay/base";
import {
  findBindingProblems,
  findBypassedMesh,
  findIfacesWithoutPort,
  findUnusedDefaultRoute,
  networkNameOf,
} from "@patchbay/core/nics";
import { findUnusedAddresses } from "@patchbay/core/vm";
import type { Deps } from "../deps.ts";
import { findNearestNetwork, hasNad, listNewNetworks, type Specs } from "../networks.ts";
import { metadataOf, vmiSpecOf, type Subject } from "./review.ts";

/** Maximum number of fields per warning, because the API server truncates long warnings. */
const NAMED_FIELDS_MAX = 10;

interface FieldWarnings extends UnsupportedFields {
  readonly unavailable: readonly FieldProblem[];
}

const NO_WARNINGS: FieldWarnings = { unbuilt: [], harmless: [], unavailable: [] };

type SubjectMetadata = Parameters<typeof validateHookSidecars>[0];

/** Finds a hooks annotation in the VM's own metadata. Only an annotation of the template has an effect. */
function findIgnoredHooks(metadata: SubjectMetadata): readonly string[] {
  const name = names.HOOK_SIDECARS_ANNOTATION;
  return metadata?.annotations?.[name] === undefined ? [] : [`metadata.annotations[${name}]`];
}

/** Finds a network selection annotation, which has no effect, because the specification declares the launcher's networks. */
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
    const { unbuilt, harmless } = listUnsupportedVmFields(subject.vm.spec);
    const unavailable = findUnavailable("spec.template.", template.metadata);
    const ignored = [
      ...findIgnoredHooks(metadataOf(subject)),
      ...findIgnoredNetworks("spec.template.metadata", template.metadata),
      ...findUnusedDefaultRoute("spec.template.metadata", template),
      ...findUnusedAddresses("spec.template.metadata", template),
      ...findBypassedMesh("spec.template.", template),
    ];
    return { unbuilt, harmless: [...harmless, ...ignored], unavailable };
  }
  const { unbuilt, harmless } = listUnsupportedVmiFields(subject.vmi.spec, "spec");
  const { metadata } = subject.vmi;
  const ignored = [
    ...findIgnoredNetworks("metadata", metadata),
    ...findUnusedDefaultRoute("metadata", subject.vmi),
    ...findUnusedAddresses("metadata", subject.vmi),
    ...findBypassedMesh("", subject.vmi),
  ];
  return {
    unbuilt,
    harmless: [...harmless, ...ignored],
    unavailable: findUnavailable("", metadata),
  };
}

function printFields(fields: readonly string[]): string {
  const omittedCount = fields.length - NAMED_FIELDS_MAX;
  const listedFields = fields.slice(0, NAMED_FIELDS_MAX).join(", ");
  return omittedCount > 0 ? `${listedFields} and ${String(omittedCount)} more` : listedFields;
}

/** Warns of new fields, bindings and hooks that prevent a start, and of new fields without effect. */
export function listFieldWarnings(
  subject: Subject,
  old: Subject | undefined,
  config: NetworkConfig,
): readonly string[] {
  const current = collectWarnings(subject, config);
  const previous = old === undefined ? NO_WARNINGS : collectWarnings(old, config);
  const knownFields = new Set([
    ...previous.unbuilt.map(({ field }) => field),
    ...previous.harmless,
  ]);
  const unbuilt = current.unbuilt
    .map(({ field }) => field)
    .filter((field) => !knownFields.has(field));
  const harmless = current.harmless.filter((field) => !knownFields.has(field));
  const printProblem = ({ field, message }: FieldProblem): string =>
    JSON.stringify([field, message]);
  const knownProblems = new Set(previous.unavailable.map(printProblem));
  const unavailable = current.unavailable.filter(
    (problem) => !knownProblems.has(printProblem(problem)),
  );
  const prefix = `the ${subject.kind === "vm" ? "VM" : "VMI"} is stored but cannot be started`;
  return [
    ...(unbuilt.length === 0 ? [] : [`${prefix}: not supported yet: ${printFields(unbuilt)}`]),
    ...unavailable
      .slice(0, NAMED_FIELDS_MAX)
      .map(({ field, message }) => `${prefix}: ${field}: ${message}`),
    ...(harmless.length === 0 ? [] : [`stored without effect: ${printFields(harmless)}`]),
  ];
}

export function listCapacityWarnings(
  vmi: VirtualMachineInstance | undefined,
  spec: VmiSpec,
  bindings: BindingRegistry,
): readonly string[] {
  if (vmi === undefined) return [];
  return [...findIfacesWithoutPort(vmi, spec, bindings)].map(([name, { reason, message }]) => {
    const condition = reason === "NoFreePciePort" ? " until a port is free" : "";
    return `interface "${name}" waits${condition}: ${message}`;
  });
}

type VmSpec = VirtualMachine["spec"];

export async function listDataVolumeWarnings(
  deps: Deps,
  specs: { readonly spec: VmSpec; readonly old: VmSpec | undefined },
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
      const fullName = networkNameOf(network, namespace) ?? name;
      const nearest = findNearestNetwork(deps, name, namespace);
      const suggestion = nearest === undefined ? "" : ` (the nearest name is "${nearest}")`;
      return [
        `network "${network.name}": NetworkAttachmentDefinition "${fullName}" does not exist yet${suggestion}; the interface waits for it`,
      ];
    }),
  );
  return warnings.flat();
}
