// SPDX-License-Identifier: Apache-2.0
// Parses AdmissionReviews and the VM or VMI in them, and builds the responses. Source: Kubernetes admission.k8s.io/v1.
import {
  VIRTUAL_MACHINE_INSTANCES,
  VIRTUAL_MACHINES,
  type VirtualMachine,
  type VirtualMachineInstance,
  type VmiSpec,
} from "@patchbay/api";
import {
  isJsonObject,
  printGoJson,
  type JsonPatchOperation,
  type JsonObject,
} from "@patchbay/api/json";
import type { Cause, ObjectMeta } from "@patchbay/api/kubernetes";
import { cutText, PROBLEMS_MAX } from "@patchbay/api/limits";
import { listLimitCauses } from "@patchbay/api/validate";
import { AppError, isEqual } from "@patchbay/base";
import type { User } from "../http/calls.ts";
import type { Metrics } from "@patchbay/telemetry";
import { MATCHER_ROLES } from "@patchbay/core/instancetype";

/** Admission request. The mutating webhook receives `object` and `oldObject` before schema validation. */
export interface AdmissionRequest {
  readonly uid: string;
  readonly kind: string;
  readonly operation: "CREATE" | "UPDATE";
  /** Subresource; empty for the object itself. */
  readonly subresource: string;
  readonly namespace: string;
  /** Name of the object or of the subresource's parent. Empty if the API server generates the name. */
  readonly name: string;
  readonly user: User;
  readonly dryRun?: boolean;
  readonly object: unknown;
  readonly oldObject: unknown;
}

export type Verdict =
  | {
      readonly allowed: true;
      readonly warnings?: readonly string[];
      readonly patch?: readonly JsonPatchOperation[];
    }
  | {
      readonly allowed: false;
      readonly code: 400 | 403 | 422 | 429;
      readonly message: string;
      readonly causes: readonly Cause[];
      readonly retryAfterSeconds?: number;
    };

export const ALLOWED: Verdict = { allowed: true };

export function asObject(value: unknown): JsonObject {
  return isJsonObject(value) ? value : {};
}

function asText(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function asTexts(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.map(asText).filter((text) => text !== "") : [];
}

function parseUser(value: unknown): User {
  const { username, groups, extra } = asObject(value);
  const claims = Object.entries(asObject(extra)).map(([name, texts]) => [name, asTexts(texts)]);
  return {
    name: asText(username),
    groups: asTexts(groups),
    // The cast is safe, because each entry of `claims` contains a name and a list of strings.
    extra: Object.fromEntries(claims) as NonNullable<User["extra"]>,
  };
}

/** Parses an AdmissionReview. @throws AppError with API_MALFORMED if the body is not an AdmissionReview */
export function parseReview(body: unknown): AdmissionRequest {
  const request = asObject(asObject(body)["request"]);
  const operation = request["operation"];
  const uid = asText(request["uid"]);
  if (uid === "" || (operation !== "CREATE" && operation !== "UPDATE")) {
    const reason = "request.uid or an operation CREATE or UPDATE is missing";
    throw new AppError("API_MALFORMED", { what: "the AdmissionReview", reason });
  }
  return {
    uid,
    operation,
    kind: asText(asObject(request["kind"])["kind"]),
    subresource: asText(request["subResource"]),
    ...(request["dryRun"] === true && { dryRun: true }),
    namespace: asText(request["namespace"]),
    name: asText(request["name"]),
    user: parseUser(request["userInfo"]),
    object: request["object"],
    oldObject: request["oldObject"],
  };
}

/** Status reason by HTTP code. Source: Kubernetes apimachinery StatusReason. */
const STATUS_REASONS = {
  400: "Invalid",
  403: "Forbidden",
  422: "Invalid",
  429: "TooManyRequests",
} as const;

function toStatus(verdict: Extract<Verdict, { allowed: false }>): object {
  const { code, message, causes, retryAfterSeconds } = verdict;
  const details = {
    ...(causes.length > 0 && { causes }),
    ...(retryAfterSeconds !== undefined && { retryAfterSeconds }),
  };
  return {
    metadata: {},
    status: "Failure",
    message,
    reason: STATUS_REASONS[code],
    ...(Object.keys(details).length > 0 && { details }),
    code,
  };
}

function printAllowed(verdict: Extract<Verdict, { allowed: true }>): object {
  const { warnings = [], patch = [] } = verdict;
  const text = Buffer.from(printGoJson(patch)).toString("base64");
  return {
    ...(warnings.length === 0 ? {} : { warnings }),
    ...(patch.length === 0 ? {} : { patchType: "JSONPatch", patch: text }),
  };
}

/** Builds the response with the uid of the request; the patch is JSON in base64. */
export function printReview(request: AdmissionRequest, verdict: Verdict): object {
  return {
    apiVersion: "admission.k8s.io/v1",
    kind: "AdmissionReview",
    response: {
      uid: request.uid,
      allowed: verdict.allowed,
      ...(verdict.allowed ? printAllowed(verdict) : { status: toStatus(verdict) }),
    },
  };
}

const CAUSE_LENGTH_MAX = 1024;

export function toVerdict(causes: readonly Cause[], warnings: readonly string[] = []): Verdict {
  if (causes.length === 0) return { allowed: true, warnings };
  const reported = causes
    .slice(0, PROBLEMS_MAX)
    .map((cause) => ({ ...cause, message: cutText(cause.message, CAUSE_LENGTH_MAX) }));
  const message = reported.map((cause) => cause.message).join(", ");
  return { allowed: false, code: 422, message, causes: reported };
}

export interface Decision {
  readonly webhook: "mutate" | "validate";
  readonly operation: "CREATE" | "UPDATE";
  readonly decision: "allowed" | "denied" | "failed";
}

export function createDecisionCounter(
  metrics: Pick<Metrics, "addCounter">,
): (decision: Decision) => void {
  const count = metrics.addCounter({
    name: "patchbay_admission_decisions_total",
    help: "Admission requests, by result.",
    labelNames: ["webhook", "operation", "decision"],
  });
  return (decision) => {
    count({ ...decision });
  };
}

/** VM or VMI in a request. The mutating webhook runs before schema validation, so it must read only fields that findSubject checks. */
export type Subject =
  | { readonly kind: "vm"; readonly vm: VirtualMachine }
  | { readonly kind: "vmi"; readonly vmi: VirtualMachineInstance };

function isOptional(value: unknown, isValid: (value: unknown) => boolean): boolean {
  return value === undefined || value === null || isValid(value);
}

function isText(value: unknown): boolean {
  return typeof value === "string";
}

function isListOf(value: unknown, isValid: (entry: JsonObject) => boolean): boolean {
  return (
    Array.isArray(value) &&
    value.every((entry: unknown) => isJsonObject(entry) && isText(entry["name"]) && isValid(entry))
  );
}

/** Checks whether the value is a list of interfaces. Checks only the types of the fields that webhooks read: name, MAC and state. */
function isIfaceList(value: unknown): boolean {
  return isListOf(
    value,
    ({ macAddress, state }) => isOptional(macAddress, isText) && isOptional(state, isText),
  );
}

/** Checks whether the value is a list of networks. Checks only the types of the fields that webhooks read: name and networkName. */
function isNetworkList(value: unknown): boolean {
  return isListOf(value, ({ multus }) =>
    isOptional(
      multus,
      (reference) => isJsonObject(reference) && isOptional(reference["networkName"], isText),
    ),
  );
}

function isVmiSpec(value: unknown): value is VmiSpec {
  if (!isJsonObject(value) || !isJsonObject(value["domain"])) return false;
  const devices = value["domain"]["devices"];
  return (
    isOptional(value["networks"], isNetworkList) &&
    isOptional(devices, isJsonObject) &&
    isOptional(isJsonObject(devices) ? devices["interfaces"] : undefined, isIfaceList)
  );
}

/** String fields of a matcher. Source: KubeVirt InstancetypeMatcher. */
const MATCHER_FIELDS = [
  "name",
  "kind",
  "inferFromVolume",
  "inferFromVolumeFailurePolicy",
  "revisionName",
];

function isMatcher(value: unknown): boolean {
  if (!isJsonObject(value)) return false;
  const texts = MATCHER_FIELDS.map((field) => value[field]);
  return texts.every((text) => text === undefined || isText(text));
}

function isVmSpec(spec: unknown): boolean {
  if (!isJsonObject(spec) || !isVmiSpec(readTemplateSpec(spec))) return false;
  return MATCHER_ROLES.every((role) => spec[role] === undefined || isMatcher(spec[role]));
}

function readTemplateSpec(spec: unknown): unknown {
  const template = isJsonObject(spec) ? spec["template"] : undefined;
  return isJsonObject(template) ? template["spec"] : undefined;
}

/** Returns the VM or VMI; undefined for other kinds and for objects in which a field that webhooks read is invalid. */
export function findSubject(kind: string, object: unknown): Subject | undefined {
  if (!isJsonObject(object) || !isJsonObject(object["metadata"])) return undefined;
  const spec = object["spec"];
  // The casts are safe: the API server has validated metadata, and isVmSpec and isVmiSpec check all fields that webhooks read.
  if (kind === VIRTUAL_MACHINES.kind && isVmSpec(spec)) {
    return { kind: "vm", vm: object as unknown as VirtualMachine };
  }
  if (kind === VIRTUAL_MACHINE_INSTANCES.kind && isVmiSpec(spec)) {
    return { kind: "vmi", vmi: object as unknown as VirtualMachineInstance };
  }
  return undefined;
}

export function vmiSpecOf(subject: Subject): VmiSpec {
  return subject.kind === "vm" ? subject.vm.spec.template.spec : subject.vmi.spec;
}

export function readText(fields: Readonly<Record<string, unknown>>, name: string): string {
  const text = fields[name];
  return typeof text === "string" ? text : "";
}

/** Refuses an object with a field beyond its limit. Admits changes of stored objects whose specification remains, and their deletion. */
export function refuseBeyondLimit(request: AdmissionRequest): Verdict | undefined {
  const { metadata, spec } = asObject(request.object);
  const causes = listLimitCauses(request.kind, spec, "spec");
  if (causes.length === 0 || asObject(metadata)["deletionTimestamp"] !== undefined) {
    return undefined;
  }
  return isEqual(spec, asObject(request.oldObject)["spec"]) ? undefined : toVerdict(causes);
}

export function refuseUnjudged({ kind, namespace, name }: AdmissionRequest, error: Error): Verdict {
  const what = `${kind} ${namespace}/${name}`;
  const refusal = new AppError("API_CHECK_FAILED", { what, reason: cutText(error.message) });
  return { allowed: false, code: 422, message: `${refusal.code}: ${refusal.message}`, causes: [] };
}

export function isUnchanged(subject: Subject, old: Subject | undefined): boolean {
  return old !== undefined && isEqual(readSpec(subject), readSpec(old));
}

function readSpec(subject: Subject): unknown {
  return subject.kind === "vm" ? subject.vm.spec : subject.vmi.spec;
}

export function metadataOf(subject: Subject): ObjectMeta {
  return subject.kind === "vm" ? subject.vm.metadata : subject.vmi.metadata;
}
