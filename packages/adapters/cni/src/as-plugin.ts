// SPDX-License-Identifier: Apache-2.0
// Parses the requests of container runtimes that call patchbay as their CNI plugin, and builds CNI errors.
// Source: CNI SPEC 1.1 sections 2 and 5; Multus pkg/server/api Request
import { fileURLToPath } from "node:url";
import { isJsonObject, type JsonObject, parseJson } from "@patchbay/api/json";
import { AppError, isAppError, messageOf, findRetryRule } from "@patchbay/base";
import { isKnownVersion, VERSION_WHEN_ABSENT } from "./version.ts";

/** CNI commands that the agent executes. The plugin program answers VERSION itself. */
type PluginCommand = "ADD" | "DEL" | "CHECK" | "GC" | "STATUS";

/** Pod of a sandbox, from K8S_POD_NAMESPACE, K8S_POD_NAME and K8S_POD_UID in CNI_ARGS. */
export interface CalledPod {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

interface KnownAttachment {
  readonly containerId: string;
  readonly interfaceName: string;
}

export interface PluginCall extends KnownAttachment {
  readonly command: PluginCommand;
  /** Path of the pod's network namespace. Unset if the runtime passes no CNI_NETNS. */
  readonly netnsPath?: string;
  readonly args: readonly (readonly [string, string])[];
  /** Pod of the sandbox. Unset if CNI_ARGS lack its namespace, name or UID. */
  readonly pod?: CalledPod;
  /** Network configuration from the plugin's standard input. */
  readonly config: JsonObject;
  readonly cniVersion: string;
  /** Values that the runtime passes for the capabilities that the configuration declares. */
  readonly runtimeConfig: JsonObject;
  /** Attachments that GC must retain. GC removes all others. */
  readonly validAttachments: readonly KnownAttachment[];
  /** Interface attributes from a `/delegate` request. The agent adds them to the configuration. Source: Multus pkg/server/api Request */
  readonly attributes: JsonObject;
}

/** Source: CNI SPEC 1.1 section 5, "Error" */
export const CNI_CODES = {
  versionUnknown: 1,
  badEnvironment: 4,
  notDecoded: 6,
  badConfig: 7,
  tryAgain: 11,
  notAvailable: 50,
  limitedConnectivity: 51,
  internal: 999,
} as const;

const COMMANDS: readonly PluginCommand[] = ["ADD", "DEL", "CHECK", "GC", "STATUS"];
/** Source: CNI pkg/utils ValidateContainerID */
const CONTAINER_ID = /^[a-zA-Z0-9][a-zA-Z0-9_.-]*$/;
/** Pattern of interface names of at most IFNAMSIZ - 1 bytes. Source: CNI pkg/utils ValidateInterfaceName */
const INTERFACE_NAME = /^(?!\.{1,2}$)[^/:\s]{1,15}$/;
/** Configuration key under which GC receives the attachments that still exist. Source: CNI SPEC 1.1 section 5, "GC" */
const VALID_ATTACHMENTS = "cni.dev/valid-attachments";

function reject(cniCode: number, reason: string): never {
  throw new AppError("CNI_CALL_INVALID", { reason, cniCode });
}

function readText(object: JsonObject, key: string): string {
  const value = object[key];
  return typeof value === "string" ? value : "";
}

function toObject(value: unknown): JsonObject {
  return isJsonObject(value) ? value : {};
}

/** Parses CNI_ARGS. Unlike CNI pkg/types LoadArgs, ignores pairs without a key or without an equals sign. */
function parseArgs(text: string): readonly (readonly [string, string])[] {
  return text.split(";").flatMap((pair) => {
    const separator = pair.indexOf("=");
    return separator > 0 ? [[pair.slice(0, separator), pair.slice(separator + 1)] as const] : [];
  });
}

function findPod(args: readonly (readonly [string, string])[]): CalledPod | undefined {
  const argumentValues = new Map(args);
  const [namespace, name, uid] = ["NAMESPACE", "NAME", "UID"].map(
    (key) => argumentValues.get(`K8S_POD_${key}`) ?? "",
  );
  if (namespace === undefined || name === undefined || uid === undefined) return undefined;
  return [namespace, name, uid].includes("") ? undefined : { namespace, name, uid };
}

function parseConfig(body: JsonObject): JsonObject {
  const config = parseJson(Buffer.from(readText(body, "config"), "base64").toString("utf8"));
  if (isJsonObject(config)) return config;
  return reject(CNI_CODES.notDecoded, "the network configuration is not a JSON object");
}

function parseVersion(config: JsonObject): string {
  const requestedVersion = readText(config, "cniVersion");
  const version = requestedVersion === "" ? VERSION_WHEN_ABSENT : requestedVersion;
  if (isKnownVersion(version)) return version;
  return reject(CNI_CODES.versionUnknown, `CNI version ${version} is not supported`);
}

/** Parses the attachments that GC must retain. Rejects a missing list: GC would treat it as empty and remove all attachments. */
function parseValidAttachments(
  command: PluginCommand,
  config: JsonObject,
): readonly KnownAttachment[] {
  if (command !== "GC") return [];
  const list = config[VALID_ATTACHMENTS];
  if (!Array.isArray(list)) reject(CNI_CODES.badConfig, `GC needs ${VALID_ATTACHMENTS}`);
  return list.map((entry: unknown) => {
    const { containerID, ifname } = toObject(entry);
    if (typeof containerID === "string" && typeof ifname === "string") {
      return { containerId: containerID, interfaceName: ifname };
    }
    return reject(CNI_CODES.badConfig, `${VALID_ATTACHMENTS} has an entry without containerID`);
  });
}

function findInvalidVariables(command: PluginCommand, env: JsonObject): readonly string[] {
  if (command === "GC" || command === "STATUS") return [];
  const needsAll = command === "ADD" || command === "CHECK";
  const netns = readText(env, "CNI_NETNS");
  const isValidByName: Readonly<Record<string, boolean>> = {
    CNI_CONTAINERID: CONTAINER_ID.test(readText(env, "CNI_CONTAINERID")),
    CNI_IFNAME: INTERFACE_NAME.test(readText(env, "CNI_IFNAME")),
    CNI_NETNS: netns.startsWith("/") || (netns === "" && !needsAll),
    "CNI_ARGS (K8S_POD_NAMESPACE, K8S_POD_NAME and K8S_POD_UID)":
      !needsAll || findPod(parseArgs(readText(env, "CNI_ARGS"))) !== undefined,
  };
  return Object.keys(isValidByName).filter((name) => isValidByName[name] === false);
}

/** @throws AppError with CNI_CALL_INVALID, whose detail `cniCode` is the CNI error code */
export function parsePluginCall(body: unknown): PluginCall {
  if (!isJsonObject(body)) reject(CNI_CODES.notDecoded, "the request is not a JSON object");
  const env = toObject(body["env"]);
  const command = COMMANDS.find((candidate) => candidate === env["CNI_COMMAND"]);
  if (command === undefined) {
    reject(CNI_CODES.badEnvironment, `CNI_COMMAND must be one of ${COMMANDS.join(", ")}`);
  }
  const problems = findInvalidVariables(command, env);
  if (problems.length > 0) {
    reject(CNI_CODES.badEnvironment, `missing or not valid: ${problems.join(", ")}`);
  }
  const config = parseConfig(body);
  const args = parseArgs(readText(env, "CNI_ARGS"));
  const netnsPath = readText(env, "CNI_NETNS");
  const pod = findPod(args);
  return {
    command,
    containerId: readText(env, "CNI_CONTAINERID"),
    interfaceName: readText(env, "CNI_IFNAME"),
    ...(netnsPath === "" ? {} : { netnsPath }),
    args,
    ...(pod === undefined ? {} : { pod }),
    config,
    cniVersion: parseVersion(config),
    runtimeConfig: toObject(config["runtimeConfig"]),
    validAttachments: parseValidAttachments(command, config),
    attributes: toObject(body["interfaceAttributes"]),
  };
}

interface PluginFailure {
  readonly cniVersion?: string;
  readonly code: number;
  readonly msg: string;
}

/** Pattern of error codes for failures of the API server and of the container runtime. Such failures can be temporary. */
const TEMPORARY_ERRORS = /^(?:KUBE|CRI)_/;

function toCniCode({ code, details }: AppError): number {
  const { cniCode } = details;
  if (typeof cniCode === "number" && cniCode > 0) return cniCode;
  if (code === "CNI_CONFIG_INVALID") return CNI_CODES.badConfig;
  return CNI_CODES.internal;
}

function isTemporary(error: AppError): boolean {
  if (error.code === "CNI_TIMED_OUT" || error.code === "CNI_POD_UNKNOWN") return true;
  return TEMPORARY_ERRORS.test(error.code) && findRetryRule(error) === "backoff";
}

/** Converts an error to a CNI error. Temporary errors get the code `tryAgain`. */
export function toPluginFailure(error: unknown, cniVersion?: string): PluginFailure {
  const permanentCode = isAppError(error) ? toCniCode(error) : CNI_CODES.internal;
  const code = isAppError(error) && isTemporary(error) ? CNI_CODES.tryAgain : permanentCode;
  return { ...(cniVersion === undefined ? {} : { cniVersion }), code, msg: messageOf(error) };
}

/** Path of the plugin program, which hack/build-native builds. */
export const PLUGIN_PROGRAM = fileURLToPath(new URL("../build/patchbay-cni", import.meta.url));
