// SPDX-License-Identifier: Apache-2.0
// Codec of the annotation for hook sidecars, which modify the libvirt domain XML. Source: KubeVirt pkg/hooks/hooks.go HookSidecar.
import type { ObjectMeta } from "../kinds/kubernetes/meta.ts";
import { collectProblems, cutText, HOOK_SIDECARS_MAX } from "../limits.ts";
import * as names from "../names.ts";
import { isJsonObject, parseJson, type JsonObject } from "../values/json.ts";
import type { FieldProblem } from "../validate/fields.ts";

export interface HookScript {
  readonly name: string;
  readonly key: string;
  readonly hookPath: string;
}

export interface HookClaim {
  readonly name: string;
  readonly volumePath: string;
  /** Mount path of the claim in the compute container, of the form `/var/run/NAME`. */
  readonly sharedComputePath?: string;
}

export interface HookSidecarRequest {
  /** The default is the sidecar-shim image, which runs programs from `configMap` and `pvc`. */
  readonly image?: string;
  readonly imagePullPolicy?: "Always" | "IfNotPresent" | "Never";
  readonly command?: readonly string[];
  readonly args?: readonly string[];
  readonly configMap?: HookScript;
  readonly pvc?: HookClaim;
  readonly readsDeviceInfo?: true;
}

const PULL_POLICIES = ["Always", "IfNotPresent", "Never"] as const;
const DEVICE_INFO = "device-info";

type Rule = (value: unknown) => string | undefined;

const isNonEmptyString = (value: unknown): value is string =>
  typeof value === "string" && value !== "";
const nonEmptyString: Rule = (value) =>
  isNonEmptyString(value) ? undefined : "must be a text that is not empty";
const stringList: Rule = (value) =>
  Array.isArray(value) && value.every((entry) => typeof entry === "string")
    ? undefined
    : "must be a list of texts";
const pullPolicy: Rule = (value) =>
  PULL_POLICIES.some((policy) => policy === value)
    ? undefined
    : `must be one of ${PULL_POLICIES.join(", ")}`;
const filePath: Rule = (value) =>
  isNonEmptyString(value) && /^(?:\/[\w.-]+)+$/.test(value) && !value.split("/").includes("..")
    ? undefined
    : "must be the absolute path of a file";
/** Reserved prefixes of names in /var/run, where the launcher stores its own files. */
const RESERVED_PREFIXES = ["kubevirt", "libvirt", "patchbay", "secrets"];
const sharedPath: Rule = (value) => {
  const name = /^\/var\/run\/([a-z][\w.-]*)$/.exec(isNonEmptyString(value) ? value : "")?.[1];
  const isFree = name !== undefined && !RESERVED_PREFIXES.some((prefix) => name.startsWith(prefix));
  return isFree
    ? undefined
    : `must be /var/run/NAME, where NAME begins with none of ${RESERVED_PREFIXES.join(", ")}: the launcher has its own files elsewhere`;
};
const deviceInfo: Rule = (value) =>
  value === DEVICE_INFO ? undefined : `must be ${DEVICE_INFO}, the only supported value`;

const SIDECAR_RULES: Readonly<Record<string, Rule>> = {
  image: nonEmptyString,
  imagePullPolicy: pullPolicy,
  command: stringList,
  args: stringList,
  downwardAPI: deviceInfo,
};
const SCRIPT_RULES: Readonly<Record<string, Rule>> = {
  name: nonEmptyString,
  key: nonEmptyString,
  hookPath: filePath,
};
const CLAIM_RULES: Readonly<Record<string, Rule>> = {
  name: nonEmptyString,
  volumePath: filePath,
  sharedComputePath: sharedPath,
};
const OPTIONAL_MEMBERS: readonly string[] = ["sharedComputePath"];

function listRuleProblems(
  value: JsonObject,
  rules: Readonly<Record<string, Rule>>,
  path: string,
): readonly FieldProblem[] {
  return Object.entries(value).flatMap(([name, member]): readonly FieldProblem[] => {
    const field = `${path}.${cutText(name)}`;
    const rule = Object.hasOwn(rules, name) ? rules[name] : undefined;
    const message = rule === undefined ? "is not known; leave it out" : rule(member);
    return message === undefined ? [] : [{ field, message }];
  });
}

function listMemberProblems(
  value: unknown,
  rules: Readonly<Record<string, Rule>>,
  path: string,
): readonly FieldProblem[] {
  if (value === undefined) return [];
  if (!isJsonObject(value)) return [{ field: path, message: "must be an object" }];
  const missingNames = Object.keys(rules).filter(
    (name) => value[name] === undefined && !OPTIONAL_MEMBERS.includes(name),
  );
  return [
    ...missingNames.map((name) => ({ field: `${path}.${name}`, message: "is required" })),
    ...listRuleProblems(value, rules, path),
  ];
}

function listSidecarProblems(value: unknown, path: string): readonly FieldProblem[] {
  if (!isJsonObject(value)) return [{ field: path, message: "must be an object" }];
  const { configMap, pvc, ...sidecarFields } = value;
  const isProgramMissing = [value["image"], configMap, pvc].every((member) => member === undefined);
  const missingImageMessage =
    "is required unless configMap or pvc provides a program for an image that runs one";
  return [
    ...(isProgramMissing ? [{ field: `${path}.image`, message: missingImageMessage }] : []),
    ...listRuleProblems(sidecarFields, SIDECAR_RULES, path),
    ...listMemberProblems(configMap, SCRIPT_RULES, `${path}.configMap`),
    ...listMemberProblems(pvc, CLAIM_RULES, `${path}.pvc`),
  ];
}

function listAllProblems(value: unknown, path: string): readonly FieldProblem[] {
  if (!Array.isArray(value)) return [{ field: path, message: "must be a JSON list of sidecars" }];
  if (value.length > HOOK_SIDECARS_MAX) {
    return [{ field: path, message: `has more than ${String(HOOK_SIDECARS_MAX)} sidecars` }];
  }
  return collectProblems(value.entries(), ([index, sidecar]) =>
    listSidecarProblems(sidecar, `${path}[${String(index)}]`),
  );
}

type AnnotatedMetadata = Pick<ObjectMeta, "annotations"> | undefined;

function findAnnotation(metadata: AnnotatedMetadata): string | undefined {
  return metadata?.annotations?.[names.HOOK_SIDECARS_ANNOTATION];
}

/** Validates the hook sidecars that `metadata` requests. Rejects all unless `isAllowed`. `base` is the field path of `metadata`. */
export function validateHookSidecars(
  metadata: AnnotatedMetadata,
  base: string,
  isAllowed: boolean,
): readonly FieldProblem[] {
  const annotation = findAnnotation(metadata);
  if (annotation === undefined || annotation === "") return [];
  const field = `${base}.annotations[${names.HOOK_SIDECARS_ANNOTATION}]`;
  if (!isAllowed) {
    const message =
      "hooks of VMs are switched off; an administrator adds Sidecar to configuration.developerConfiguration.featureGates of the KubeVirt object";
    return [{ field, message }];
  }
  return listAllProblems(parseJson(annotation), field);
}

function toSidecar(value: JsonObject): HookSidecarRequest {
  const { downwardAPI, ...fields } = value;
  return {
    // The caller has validated the value with validateHookSidecars.
    ...(fields as unknown as HookSidecarRequest),
    ...(downwardAPI === undefined ? {} : { readsDeviceInfo: true }),
  };
}

/** Returns the hook sidecars in the order of the annotation. Returns an empty list if validateHookSidecars reports a problem. */
export function parseHookSidecars(
  metadata: AnnotatedMetadata,
  isAllowed: boolean,
): readonly HookSidecarRequest[] {
  const value = parseJson(findAnnotation(metadata));
  if (!Array.isArray(value) || validateHookSidecars(metadata, "metadata", isAllowed).length > 0) {
    return [];
  }
  return value.filter(isJsonObject).map(toSidecar);
}
