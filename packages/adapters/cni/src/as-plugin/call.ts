// SPDX-License-Identifier: Apache-2.0
// What does a container runtime want of us as its plugin? The call as Multus' shim words it. Pure.
// Source: CNI SPEC 1.1 section 2; Multus pkg/server/api Request.
import { isJsonObject, parseJson, type JsonObject } from "@patchbay/api";
import { AppError } from "@patchbay/core";
import { isKnownVersion, VERSION_WHEN_ABSENT } from "../version.ts";

/** What a runtime asks for; VERSION needs nobody but the program that it runs. */
export type PluginCommand = "ADD" | "DEL" | "CHECK" | "GC" | "STATUS";

/** The pod that a sandbox is of, as its kubelet says. */
export interface CalledPod {
  readonly namespace: string;
  readonly name: string;
  readonly uid: string;
}

/** One attachment that a runtime knows of. */
export interface KnownAttachment {
  readonly containerId: string;
  readonly interfaceName: string;
}

/** A call that has all that its command needs. */
export interface PluginCall extends KnownAttachment {
  readonly command: PluginCommand;
  /** Absent: it is gone, or the command needs none. */
  readonly netnsPath?: string;
  /** CNI_ARGS in order. */
  readonly args: readonly (readonly [string, string])[];
  /** Absent where CNI_ARGS name none, or not in full. */
  readonly pod?: CalledPod;
  /** What is on standard input: of the runtime for `/cni`, of a network for `/delegate`. */
  readonly config: JsonObject;
  /** That of the configuration; the answer has it too. */
  readonly cniVersion: string;
  /** Values of the runtime for what its configuration declares. */
  readonly runtimeConfig: JsonObject;
  /** GC: the attachments that are to stay. */
  readonly valid: readonly KnownAttachment[];
  /** What a controller asks for beside the configuration. */
  readonly attributes: JsonObject;
}

/** Error codes. Source: CNI SPEC 1.1 section 5, "Error". */
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
/** Source: CNI pkg/utils ValidateContainerID. */
const CONTAINER_ID = /^[a-zA-Z0-9][a-zA-Z0-9_.-]*$/;
/** Source: CNI pkg/utils ValidateInterfaceName; 15 is IFNAMSIZ - 1. */
const INTERFACE_NAME = /^(?!\.{1,2}$)[^/:\s]{1,15}$/;
/** Source: CNI SPEC 1.1 section 5, "GC". */
const VALID_ATTACHMENTS = "cni.dev/valid-attachments";

function refuse(cniCode: number, reason: string): never {
  throw new AppError("CNI_CALL_INVALID", { reason, cniCode });
}

function textOf(from: JsonObject, key: string): string {
  const value = from[key];
  return typeof value === "string" ? value : "";
}

function objectOf(value: unknown): JsonObject {
  return isJsonObject(value) ? value : {};
}

/** Pairs without a sign say nothing; a value may have more of them. Source: CNI pkg/types LoadArgs. */
function argsOf(text: string): readonly (readonly [string, string])[] {
  return text.split(";").flatMap((pair) => {
    const at = pair.indexOf("=");
    return at > 0 ? [[pair.slice(0, at), pair.slice(at + 1)] as const] : [];
  });
}

function podOf(args: readonly (readonly [string, string])[]): CalledPod | undefined {
  const told = new Map(args);
  const [namespace, name, uid] = ["NAMESPACE", "NAME", "UID"].map(
    (key) => told.get(`K8S_POD_${key}`) ?? "",
  );
  if (namespace === undefined || name === undefined || uid === undefined) return undefined;
  return [namespace, name, uid].includes("") ? undefined : { namespace, name, uid };
}

function configOf(body: JsonObject): JsonObject {
  const config = parseJson(Buffer.from(textOf(body, "config"), "base64").toString("utf8"));
  if (isJsonObject(config)) return config;
  return refuse(CNI_CODES.notDecoded, "the network configuration is not a JSON object");
}

function versionOf(config: JsonObject): string {
  const stated = textOf(config, "cniVersion");
  const version = stated === "" ? VERSION_WHEN_ABSENT : stated;
  if (isKnownVersion(version)) return version;
  return refuse(CNI_CODES.versionUnknown, `CNI version ${version} is not supported`);
}

/** An absent list is not an empty one, by which everything would go. */
function validOf(command: PluginCommand, config: JsonObject): readonly KnownAttachment[] {
  if (command !== "GC") return [];
  const list = config[VALID_ATTACHMENTS];
  if (!Array.isArray(list)) refuse(CNI_CODES.badConfig, `GC needs ${VALID_ATTACHMENTS}`);
  return list.map((entry: unknown) => {
    const { containerID, ifname } = objectOf(entry);
    if (typeof containerID === "string" && typeof ifname === "string") {
      return { containerId: containerID, interfaceName: ifname };
    }
    return refuse(CNI_CODES.badConfig, `${VALID_ATTACHMENTS} has an entry without containerID`);
  });
}

/** All that the environment lacks, at once. */
function environmentProblems(command: PluginCommand, env: JsonObject): readonly string[] {
  if (command === "GC" || command === "STATUS") return [];
  const needsAll = command === "ADD" || command === "CHECK";
  const netns = textOf(env, "CNI_NETNS");
  const isFine: Readonly<Record<string, boolean>> = {
    CNI_CONTAINERID: CONTAINER_ID.test(textOf(env, "CNI_CONTAINERID")),
    CNI_IFNAME: INTERFACE_NAME.test(textOf(env, "CNI_IFNAME")),
    CNI_NETNS: netns.startsWith("/") || (netns === "" && !needsAll),
    "CNI_ARGS (K8S_POD_NAMESPACE, K8S_POD_NAME and K8S_POD_UID)":
      !needsAll || podOf(argsOf(textOf(env, "CNI_ARGS"))) !== undefined,
  };
  return Object.keys(isFine).filter((name) => isFine[name] === false);
}

/**
 * Reads a call from the body of a request.
 * @throws AppError with CNI_CALL_INVALID, whose detail `cniCode` is the code to answer with
 */
export function parsePluginCall(body: unknown): PluginCall {
  if (!isJsonObject(body)) refuse(CNI_CODES.notDecoded, "the request is not a JSON object");
  const env = objectOf(body["env"]);
  const command = COMMANDS.find((one) => one === env["CNI_COMMAND"]);
  if (command === undefined) {
    refuse(CNI_CODES.badEnvironment, `CNI_COMMAND must be one of ${COMMANDS.join(", ")}`);
  }
  const problems = environmentProblems(command, env);
  if (problems.length > 0) {
    refuse(CNI_CODES.badEnvironment, `missing or not valid: ${problems.join(", ")}`);
  }
  const config = configOf(body);
  const args = argsOf(textOf(env, "CNI_ARGS"));
  const netnsPath = textOf(env, "CNI_NETNS");
  const pod = podOf(args);
  return {
    command,
    containerId: textOf(env, "CNI_CONTAINERID"),
    interfaceName: textOf(env, "CNI_IFNAME"),
    ...(netnsPath === "" ? {} : { netnsPath }),
    args,
    ...(pod === undefined ? {} : { pod }),
    config,
    cniVersion: versionOf(config),
    runtimeConfig: objectOf(config["runtimeConfig"]),
    valid: validOf(command, config),
    attributes: objectOf(body["interfaceAttributes"]),
  };
}
