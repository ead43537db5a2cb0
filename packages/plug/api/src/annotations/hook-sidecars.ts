// SPDX-License-Identifier: Apache-2.0
// Codec of the annotation that asks for hooks: sidecars of the launcher that change the guest's domain. Source: KubeVirt
// pkg/hooks/hooks.go HookSidecar.
import type { ObjectMeta } from "../kinds/kubernetes/meta.ts";
import * as names from "../names.ts";
import { isJsonObject, parseJson, type JsonObject } from "../values/json.ts";
import type { FieldProblem } from "../validate/fields.ts";

/** A script of a ConfigMap in the place of a hook's program. */
export interface HookScript {
  /** Of the ConfigMap, in the VMI's namespace. */
  readonly name: string;
  readonly key: string;
  /** Where the hook's container has it; absolute. */
  readonly hookPath: string;
}

/** A claim whose files a hook has. */
export interface HookClaim {
  /** Of the claim, in the VMI's namespace. */
  readonly name: string;
  /** Where the hook's container has it; absolute. */
  readonly volumePath: string;
  /** Where the guest's QEMU has it: `/var/run/NAME`. */
  readonly sharedComputePath?: string;
}

/** One hook that a VMI asks for. */
export interface HookSidecarRequest {
  /** Absent: the one that runs programs, as KubeVirt's sidecar-shim does. */
  readonly image?: string;
  readonly imagePullPolicy?: "Always" | "IfNotPresent" | "Never";
  readonly command?: readonly string[];
  readonly args?: readonly string[];
  readonly configMap?: HookScript;
  readonly pvc?: HookClaim;
  /** It reads what the launcher tells of its NICs. */
  readonly readsDeviceInfo?: true;
}

/** Most hooks of one VMI: each is a container. */
const SIDECARS_MAX = 16;
const POLICIES = ["Always", "IfNotPresent", "Never"] as const;
const DEVICE_INFO = "device-info";

/** What a member must be; undefined: it is. */
type Rule = (value: unknown) => string | undefined;

const isText = (value: unknown): value is string => typeof value === "string" && value !== "";
const text: Rule = (value) => (isText(value) ? undefined : "must be a text that is not empty");
const texts: Rule = (value) =>
  Array.isArray(value) && value.every((one) => typeof one === "string")
    ? undefined
    : "must be a list of texts";
const policy: Rule = (value) =>
  POLICIES.some((one) => one === value) ? undefined : `must be one of ${POLICIES.join(", ")}`;
const path: Rule = (value) =>
  isText(value) && /^(?:\/[\w.-]+)+$/.test(value) && !value.split("/").includes("..")
    ? undefined
    : "must be the absolute path of a file";
/** Nothing that the launcher has there itself. */
const RESERVED = ["kubevirt", "libvirt", "patchbay", "secrets"];
const sharedPath: Rule = (value) => {
  const name = /^\/var\/run\/([a-z][\w.-]*)$/.exec(isText(value) ? value : "")?.[1];
  const isFree = name !== undefined && !RESERVED.some((word) => name.startsWith(word));
  return isFree
    ? undefined
    : `must be /var/run/NAME, where NAME begins with none of ${RESERVED.join(", ")}: the launcher has its own files elsewhere`;
};
const deviceInfo: Rule = (value) =>
  value === DEVICE_INFO ? undefined : `must be ${DEVICE_INFO}: nothing else is told`;

const RULES: Readonly<Record<string, Rule>> = {
  image: text,
  imagePullPolicy: policy,
  command: texts,
  args: texts,
  downwardAPI: deviceInfo,
};
const SCRIPT_RULES: Readonly<Record<string, Rule>> = { name: text, key: text, hookPath: path };
const CLAIM_RULES: Readonly<Record<string, Rule>> = {
  name: text,
  volumePath: path,
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
    "is required where neither configMap nor pvc brings a program for the image that runs one";
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

function textOf(metadata: Annotated): string | undefined {
  return metadata?.annotations?.[names.HOOK_SIDECARS_ANNOTATION];
}

/** For what the hooks that the metadata at `base` asks for cannot be had; `isAllowed`: the cluster lets VMs have hooks. */
export function hookSidecarProblems(
  metadata: Annotated,
  base: string,
  isAllowed: boolean,
): readonly FieldProblem[] {
  const said = textOf(metadata);
  if (said === undefined || said === "") return [];
  const field = `${base}.annotations[${names.HOOK_SIDECARS_ANNOTATION}]`;
  if (!isAllowed) {
    const message =
      "hooks of VMs are switched off; an administrator adds Sidecar to configuration.developerConfiguration.featureGates of the KubeVirt object";
    return [{ field, message }];
  }
  return listProblems(parseJson(said), field);
}

function toSidecar(value: JsonObject): HookSidecarRequest {
  const { downwardAPI, ...rest } = value;
  return {
    // Judged before.
    ...(rest as unknown as HookSidecarRequest),
    ...(downwardAPI === undefined ? {} : { readsDeviceInfo: true }),
  };
}

/** The hooks that the metadata asks for, in their order; none where there is anything that they cannot be had for. */
export function hookSidecarsOf(
  metadata: Annotated,
  isAllowed: boolean,
): readonly HookSidecarRequest[] {
  const value = parseJson(textOf(metadata));
  if (!Array.isArray(value) || hookSidecarProblems(metadata, "metadata", isAllowed).length > 0) {
    return [];
  }
  return value.filter(isJsonObject).map(toSidecar);
}
