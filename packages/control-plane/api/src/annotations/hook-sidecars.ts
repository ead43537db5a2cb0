// SPDX-License-Identifier: Apache-2.0
// Codec of the annotation that requests hook sidecars: containers beside the launcher that change the libvirt domain.
// Source: KubeVirt pkg/hooks/hooks.go HookSidecar.
import type { ObjectMeta } from "../kinds/kubernetes/meta.ts";
import * as names from "../names.ts";
import { isJsonObject, parseJson, type JsonObject } from "../values/json.ts";
import type { FieldProblem } from "../validate/fields.ts";

export interface HookScript {
  readonly name: string;
  readonly key: string;
  readonly hookPath: string;
}

/** A PersistentVolumeClaim that is mounted in the hook's container. */
export interface HookClaim {
  readonly name: string;
  readonly volumePath: string;
  /** Mount path in the container that runs QEMU: `/var/run/NAME`. */
  readonly sharedComputePath?: string;
}

export interface HookSidecarRequest {
  /** Unset: an image that runs programs, like KubeVirt's sidecar-shim. */
  readonly image?: string;
  readonly imagePullPolicy?: "Always" | "IfNotPresent" | "Never";
  readonly command?: readonly string[];
  readonly args?: readonly string[];
  readonly configMap?: HookScript;
  readonly pvc?: HookClaim;
  readonly readsDeviceInfo?: true;
}

/** Limit per VMI: each hook is a container. */
const SIDECARS_MAX = 16;
const POLICIES = ["Always", "IfNotPresent", "Never"] as const;
const DEVICE_INFO = "device-info";

type Rule = (value: unknown) => string | undefined;

const isNonEmptyString = (value: unknown): value is string =>
  typeof value === "string" && value !== "";
const nonEmptyString: Rule = (value) =>
  isNonEmptyString(value) ? undefined : "must be a text that is not empty";
const stringList: Rule = (value) =>
  Array.isArray(value) && value.every((one) => typeof one === "string")
    ? undefined
    : "must be a list of texts";
const policy: Rule = (value) =>
  POLICIES.some((one) => one === value) ? undefined : `must be one of ${POLICIES.join(", ")}`;
const filePath: Rule = (value) =>
  isNonEmptyString(value) && /^(?:\/[\w.-]+)+$/.test(value) && !value.split("/").includes("..")
    ? undefined
    : "must be the absolute path of a file";
/** Prefixes of directories in /var/run that the launcher uses itself. */
const RESERVED = ["kubevirt", "libvirt", "patchbay", "secrets"];
const sharedPath: Rule = (value) => {
  const name = /^\/var\/run\/([a-z][\w.-]*)$/.exec(isNonEmptyString(value) ? value : "")?.[1];
  const isFree = name !== undefined && !RESERVED.some((argument) => name.startsWith(argument));
  return isFree
    ? undefined
    : `must be /var/run/NAME, where NAME begins with none of ${RESERVED.join(", ")}: the launcher has its own files elsewhere`;
};
const deviceInfo: Rule = (value) =>
  value === DEVICE_INFO ? undefined : `must be ${DEVICE_INFO}, the only supported value`;

const RULES: Readonly<Record<string, Rule>> = {
  image: nonEmptyString,
  imagePullPolicy: policy,
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
const OPTIONAL: readonly string[] = ["sharedComputePath"];

function ruleProblems(
  value: JsonObject,
  rules: Readonly<Record<string, Rule>>,
  at: string,
): readonly FieldProblem[] {
  return Object.entries(value).flatMap(([name, member]): readonly FieldProblem[] => {
    const field = `${at}.${name}`;
    const rule = Object.hasOwn(rules, name) ? rules[name] : undefined;
    const message = rule === undefined ? "is not known; leave it out" : rule(member);
    return message === undefined ? [] : [{ field, message }];
  });
}

function memberProblems(
  value: unknown,
  rules: Readonly<Record<string, Rule>>,
  at: string,
): readonly FieldProblem[] {
  if (value === undefined) return [];
  if (!isJsonObject(value)) return [{ field: at, message: "must be an object" }];
  const absent = Object.keys(rules).filter(
    (name) => value[name] === undefined && !OPTIONAL.includes(name),
  );
  return [
    ...absent.map((name) => ({ field: `${at}.${name}`, message: "is required" })),
    ...ruleProblems(value, rules, at),
  ];
}

function sidecarProblems(value: unknown, at: string): readonly FieldProblem[] {
  if (!isJsonObject(value)) return [{ field: at, message: "must be an object" }];
  const { configMap, pvc, ...rest } = value;
  const isBare = [value["image"], configMap, pvc].every((member) => member === undefined);
  const noImage =
    "is required unless configMap or pvc provides a program for an image that runs one";
  return [
    ...(isBare ? [{ field: `${at}.image`, message: noImage }] : []),
    ...ruleProblems(rest, RULES, at),
    ...memberProblems(configMap, SCRIPT_RULES, `${at}.configMap`),
    ...memberProblems(pvc, CLAIM_RULES, `${at}.pvc`),
  ];
}

function listProblems(value: unknown, at: string): readonly FieldProblem[] {
  if (!Array.isArray(value)) return [{ field: at, message: "must be a JSON list of sidecars" }];
  if (value.length > SIDECARS_MAX) {
    return [{ field: at, message: `has more than ${String(SIDECARS_MAX)} sidecars` }];
  }
  return value.flatMap((one, index) => sidecarProblems(one, `${at}[${String(index)}]`));
}

type Annotated = Pick<ObjectMeta, "annotations"> | undefined;

function findAnnotation(metadata: Annotated): string | undefined {
  return metadata?.annotations?.[names.HOOK_SIDECARS_ANNOTATION];
}

/** Validates the hooks that the metadata at `base` requests. `isAllowed`: the cluster enables hooks for VMs. */
export function validateHookSidecars(
  metadata: Annotated,
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
  return listProblems(parseJson(annotation), field);
}

function toSidecar(value: JsonObject): HookSidecarRequest {
  const { downwardAPI, ...rest } = value;
  return {
    // validateHookSidecars has validated the value.
    ...(rest as unknown as HookSidecarRequest),
    ...(downwardAPI === undefined ? {} : { readsDeviceInfo: true }),
  };
}

/** Returns the requested hooks in their order, or none if any of them is invalid. */
export function parseHookSidecars(
  metadata: Annotated,
  isAllowed: boolean,
): readonly HookSidecarRequest[] {
  const value = parseJson(findAnnotation(metadata));
  if (!Array.isArray(value) || validateHookSidecars(metadata, "metadata", isAllowed).length > 0) {
    return [];
  }
  return value.filter(isJsonObject).map(toSidecar);
}
