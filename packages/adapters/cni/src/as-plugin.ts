// SPDX-License-Identifier: Apache-2.0
// Calls of a container runtime to patchbay as its CNI plugin, and the errors that it answers with. Pure. Source: CNI
// SPEC 1.1 sections 2 and 5; Multus pkg/server/api Request
import { fileURLToPath } from "node:url";
import { isJsonObject, type JsonObject, parseJson } from "@patchbay/api/json";
import { AppError, isAppError, messageOf, findRetryRule } from "@patchbay/base";
import { isKnownVersion, VERSION_WHEN_ABSENT } from "./version.ts";

/** Commands without VERSION, which the plugin program answers itself. */
type PluginCommand = "ADD" | "DEL" | "CHECK" | "GC" | "STATUS";

/** The pod of a sandbox, from the kubelet's CNI_ARGS. */
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
  /** Path of the network namespace; unset if it is deleted or the command needs none. */
  readonly netnsPath?: string;
  readonly args: readonly (readonly [string, string])[];
  /** Pod of the sandbox; unset if CNI_ARGS do not name it in full. */
  readonly pod?: CalledPod;
  /** Configuration from standard input: of the runtime for `/cni`, of the network for `/delegate`. */
  readonly config: JsonObject;
  /** Version of the configuration; the response has the same. */
  readonly cniVersion: string;
  /** The runtime's values for capabilities that its configuration declares. */
  readonly runtimeConfig: JsonObject;
  /** Attachments that GC preserves. */
  readonly valid: readonly KnownAttachment[];
  /** Attributes that a controller requests in addition to the configuration. */
  readonly attributes: JsonObject;
}

/** Codes of CNI errors. Source: CNI SPEC 1.1 section 5, "Error" */
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
/** Pattern of container IDs. Source: CNI pkg/utils ValidateContainerID */
const CONTAINER_ID = /^[a-zA-Z0-9][a-zA-Z0-9_.-]*$/;
/** Pattern of interface names; 15 is IFNAMSIZ - 1. Source: CNI pkg/utils ValidateInterfaceName */
const INTERFACE_NAME = /^(?!\.{1,2}$)[^/:\s]{1,15}$/;
/** Key of GC's valid attachments. Source: CNI SPEC 1.1 section 5, "GC" */
const VALID_ATTACHMENTS = "cni.dev/valid-attachments";

function reject(cniCode: number, reason: string): never {
  throw new AppError("CNI_CALL_INVALID", { reason, cniCode });
}

function readText(from: JsonObject, key: string): string {
  const value = from[key];
  return typeof value === "string" ? value : "";
}

function toObject(value: unknown): JsonObject {
  return isJsonObject(value) ? value : {};
}

/** Parses CNI_ARGS. Ignores pairs without an equals sign; values may contain more. Source: CNI pkg/types LoadArgs */
function parseArgs(text: string): readonly (readonly [string, string])[] {
  return text.split(";").flatMap((pair) => {
    const at = pair.indexOf("=");
    return at > 0 ? [[pair.slice(0, at), pair.slice(at + 1)] as const] : [];
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

/** Parses GC's list. A missing list is an error, because an empty one would remove all attachments. */
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

/** Parses a call. @throws AppError with CNI_CALL_INVALID, whose detail `cniCode` is the code to answer with */
export function parsePluginCall(body: unknown): PluginCall {
  if (!isJsonObject(body)) reject(CNI_CODES.notDecoded, "the request is not a JSON object");
  const env = toObject(body["env"]);
  const command = COMMANDS.find((one) => one === env["CNI_COMMAND"]);
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
    valid: parseValidAttachments(command, config),
    attributes: toObject(body["interfaceAttributes"]),
  };
}

interface PluginFailure {
  readonly cniVersion?: string;
  readonly code: number;
  readonly msg: string;
}

/** Pattern of errors of the API server and the container runtime, which recover without intervention. */
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

/** Converts an error to CNI's format. A temporary error gets the code "try again later". */
export function toPluginFailure(error: unknown, cniVersion?: string): PluginFailure {
  const permanentCode = isAppError(error) ? toCniCode(error) : CNI_CODES.internal;
  const code = isAppError(error) && isTemporary(error) ? CNI_CODES.tryAgain : permanentCode;
  return { ...(cniVersion === undefined ? {} : { cniVersion }), code, msg: messageOf(error) };
}

/** Path of the plugin program, which hack/build-native builds. Sources and compiled files are at the same depth. */
export const PLUGIN_PROGRAM = fileURLToPath(new URL("../build/patchbay-cni", import.meta.url));
