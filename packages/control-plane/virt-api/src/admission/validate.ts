// SPDX-License-Identifier: Apache-2.0
// POST /validate: dispatches by kind, and validates the kinds without a file of their own.
import { isEqual } from "@patchbay/base";
import { readDataVolume } from "@patchbay/core/vm";
import { asObject, toVerdict, type AdmissionRequest, type Verdict, ALLOWED } from "./review.ts";
import {
  CLUSTER_INSTANCETYPES,
  CLUSTER_PREFERENCES,
  DATA_VOLUMES,
  INSTANCETYPES,
  validateInstancetype,
  PREFERENCES,
  validatePreference,
  preferenceWarnings,
  findRejectionReason,
  type InstancetypeSpec,
  type PreferenceSpec,
  NETWORK_ATTACHMENT_DEFINITIONS,
  PODS,
} from "@patchbay/api";
import { parseNetworkConfig } from "@patchbay/cni";
import type { Deps } from "../deps.ts";
import { validateMigrationOrEviction } from "./migrations.ts";
import { guardLauncher, guardStatus } from "./guards.ts";
import { denyForeignNetworks } from "./new-networks.ts";
import { findSubject, isUnchanged, vmiSpecOf, type Subject } from "./subject.ts";
import { validateVm, validateVmi } from "./vm.ts";

function specOf(object: unknown): unknown {
  return asObject(object)["spec"];
}

/** On standalone machines only; in clusters CDI validates DataVolumes. Source of the immutable specification: CDI datavolume-validate. */
function validateDataVolume(request: AdmissionRequest): Verdict {
  const { namespace, operation, object, oldObject } = request;
  const spec = specOf(object);
  if (operation === "CREATE") {
    const read = readDataVolume(spec, namespace);
    return toVerdict("causes" in read ? read.causes : []);
  }
  if (isEqual(spec, specOf(oldObject))) return toVerdict([]);
  const message =
    "spec: the specification of a DataVolume cannot be changed; delete it, and create it again";
  return toVerdict([{ reason: "FieldValueForbidden", field: "spec", message }]);
}

function checkInstancetype(spec: unknown): Verdict {
  // The API server validated the specification against its schema.
  return toVerdict(validateInstancetype(spec as InstancetypeSpec));
}

function checkPreference(value: unknown): Verdict {
  // The API server validated the specification against its schema.
  const spec = value as PreferenceSpec;
  return toVerdict(validatePreference(spec), preferenceWarnings(spec));
}

const VALIDATORS: Readonly<Record<string, (spec: unknown) => Verdict>> = {
  [INSTANCETYPES.kind]: checkInstancetype,
  [CLUSTER_INSTANCETYPES.kind]: checkInstancetype,
  [PREFERENCES.kind]: checkPreference,
  [CLUSTER_PREFERENCES.kind]: checkPreference,
};

/** Handles instancetypes, preferences, DataVolumes and rejected kinds; undefined for others. */
function validateOtherKind(request: AdmissionRequest): Verdict | undefined {
  const { kind, object } = request;
  if (kind === DATA_VOLUMES.kind) return validateDataVolume(request);
  const message = findRejectionReason(kind);
  if (message !== undefined) return { allowed: false, code: 403, message, causes: [] };
  return Object.hasOwn(VALIDATORS, kind) ? VALIDATORS[kind]?.(asObject(object)["spec"]) : undefined;
}

function readText(fields: Readonly<Record<string, unknown>>, name: string): string {
  const text = fields[name];
  return typeof text === "string" ? text : "";
}

/** Only warns of an unusable network, because other programs may read the definition. */
function warnAboutDefinition({ namespace, object, oldObject }: AdmissionRequest): Verdict {
  const spec = asObject(asObject(object)["spec"]);
  if (isEqual(spec, asObject(oldObject)["spec"])) return ALLOWED;
  const name = readText(asObject(asObject(object)["metadata"]), "name");
  const title = `NetworkAttachmentDefinition ${namespace}/${name}`;
  const text = readText(spec, "config");
  if (text === "") {
    const warning = `${title} has no spec.config: interfaces are attached to it only on nodes with a file that defines a network of that name, in the directory of net-agent's flag --definition-dir`;
    return { allowed: true, warnings: [warning] };
  }
  // A generated name is unknown yet.
  const parsed = parseNetworkConfig(text, name === "" ? "unnamed" : name);
  if (parsed.ok) return ALLOWED;
  const causes = parsed.causes.map(({ field, message }) => `${field}: ${message}`).join("; ");
  const warning = `${title} is stored, but no interface can be attached to it: ${causes}; correct it and apply it again`;
  return { allowed: true, warnings: [warning] };
}

function validateSubject(
  deps: Deps,
  request: AdmissionRequest,
  { subject, old }: { readonly subject: Subject; readonly old: Subject | undefined },
): Promise<Verdict> {
  if (subject.kind === "vm") {
    const { vm } = subject;
    return validateVm(deps, request, { vm, old: old?.kind === "vm" ? old.vm : undefined });
  }
  const { vmi } = subject;
  return validateVmi(deps, request, { vmi, old: old?.kind === "vmi" ? old.vmi : undefined });
}

export async function validate(deps: Deps, request: AdmissionRequest): Promise<Verdict> {
  if (request.subresource === "status") return guardStatus(deps, request);
  if (request.kind === NETWORK_ATTACHMENT_DEFINITIONS.kind) return warnAboutDefinition(request);
  if (request.kind === PODS.kind) return guardLauncher(request);
  const verdict = validateOtherKind(request) ?? (await validateMigrationOrEviction(deps, request));
  if (verdict !== undefined) return verdict;
  const subject = findSubject(request.kind, request.object);
  if (subject === undefined) return ALLOWED;
  const old = findSubject(request.kind, request.oldObject);
  if (isUnchanged(subject, old)) return ALLOWED;
  const specs = { spec: vmiSpecOf(subject), old: old === undefined ? undefined : vmiSpecOf(old) };
  const denial = await denyForeignNetworks(deps, request, specs);
  return denial ?? validateSubject(deps, request, { subject, old });
}
