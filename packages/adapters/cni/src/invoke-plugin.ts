// SPDX-License-Identifier: Apache-2.0
// Runs one CNI plugin once, and queries the versions that it supports. Source: CNI SPEC 1.1 section 2, "Execution
// Protocol"
import { isJsonObject, parseJson } from "@patchbay/api";
import { AppError, isAppError } from "@patchbay/base";
import type { AttachmentRequest, CommandResult, ProcessRunner } from "@patchbay/core/interfaces";
import type { LimitFunction } from "p-limit";
import { parseVersions } from "./version.ts";

/** PATH for programs that plugins run, such as iptables and ip. */
const PROGRAM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

export interface PluginHost {
  readonly runner: ProcessRunner;
  /** Searched in order. Source: CNI SPEC 1.1 section 2, CNI_PATH */
  readonly binDirs: readonly string[];
  readonly limit: LimitFunction;
  /** Process family of the plugins, the same after a restart: see {@link ProcessRunner.killFamily}. */
  readonly family: string;
  /** A process whose mount and network namespaces plugins run in; unset for this process's own. */
  readonly hostProcess?: number;
}

export interface Invocation {
  readonly plugin: string;
  readonly network: string;
  readonly command: "ADD" | "DEL" | "CHECK" | "STATUS" | "GC" | "VERSION";
  readonly stdin: string;
  /** CNI_ variables other than CNI_COMMAND and CNI_PATH. */
  readonly env: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  /**
   * ADDRESS/LENGTH of a NIC whose network namespace was deleted. The plugin runs with a stand-in namespace that has a
   * link with these addresses, because it derives from them what it must remove on the host.
   */
  readonly standInAddresses?: readonly string[];
}

export function buildEnvironment(request: AttachmentRequest): Readonly<Record<string, string>> {
  return {
    CNI_CONTAINERID: request.containerId,
    CNI_NETNS: request.netnsPath ?? "",
    CNI_IFNAME: request.interfaceName,
    CNI_ARGS: request.args.map(([key, value]) => `${key}=${value}`).join(";"),
  };
}

/** Errors that only another configuration resolves. Source: CNI SPEC 1.1 section 5, "Error" */
const CONFIG_CODES = [1, 2, 6, 7];

/** Characters of a plugin's message to repeat in events and an annotation. */
const MESSAGE_MAX = 1_000;

/** Exit code of a shell and of nsenter for a missing program. Source: POSIX sh, 2.8.2 */
const NO_SUCH_PROGRAM = 127;

/**
 * Creates a link in a stand-in namespace, and runs the plugin outside of it. The namespace is deleted with this
 * process. The link is a veth, because the plugin needs that kernel module anyway.
 */
const STAND_IN_SCRIPT = `
ip link add "$CNI_IFNAME" type veth
for address in $STAND_IN_ADDRESSES; do ip address add "$address" dev "$CNI_IFNAME"; done
CNI_NETNS=/proc/$$/ns/net nsenter --target "$PPID" --net -- "$@"`;

/** Plugins, their libraries and the links they create belong to the host, because a container runtime would run them there. */
function buildCommand(
  path: string,
  { hostProcess }: PluginHost,
  { standInAddresses }: Invocation,
): readonly [string, ...string[]] {
  const plugin: readonly [string, ...string[]] =
    hostProcess === undefined
      ? [path]
      : ["nsenter", "--target", String(hostProcess), "--mount", "--net", "--", path];
  return standInAddresses === undefined
    ? plugin
    : ["unshare", "--net", "--", "sh", "-c", STAND_IN_SCRIPT, "sh", ...plugin];
}

function isMissing(
  { hostProcess }: PluginHost,
  { standInAddresses }: Invocation,
  { exitCode }: { readonly exitCode: number },
): boolean {
  const isWrapped = hostProcess !== undefined || standInAddresses !== undefined;
  return isWrapped && exitCode === NO_SUCH_PROGRAM;
}

async function runFrom(
  directory: string,
  host: PluginHost,
  call: Invocation,
): Promise<CommandResult | undefined> {
  try {
    const outcome = await host.limit(() =>
      host.runner.run({
        argv: buildCommand(`${directory}/${call.plugin}`, host, call),
        stdin: call.stdin,
        env: {
          PATH: PROGRAM_PATH,
          ...call.env,
          ...(call.standInAddresses && { STAND_IN_ADDRESSES: call.standInAddresses.join(" ") }),
          CNI_COMMAND: call.command,
          CNI_PATH: host.binDirs.join(":"),
        },
        timeoutMs: call.timeoutMs,
        // A plugin that survived this process would compete with plugins of the next one for the same sandbox, and so
        // would its IPAM plugin.
        family: host.family,
      }),
    );
    return isMissing(host, call, outcome) ? undefined : outcome;
  } catch (error) {
    if (isAppError(error, "OS_PROGRAM_MISSING")) return undefined;
    if (isAppError(error, "OS_PROGRAM_FAILED")) throw outputTooLong(call, error);
    if (!isAppError(error, "OS_TIMED_OUT")) throw error;
    throw new AppError(
      "CNI_TIMED_OUT",
      { plugin: call.plugin, command: call.command, timeoutMs: call.timeoutMs },
      { cause: error },
    );
  }
}

function outputTooLong({ plugin, command }: Invocation, error: AppError): AppError {
  const message = String(error.details["stderr"]);
  return new AppError(
    "CNI_PLUGIN_FAILED",
    { plugin, command, message, cniCode: 0 },
    { cause: error },
  );
}

/** A plugin's message in one line of bounded length, from arbitrary bytes. */
function oneLine(text: string): string {
  const head = text.trimStart().slice(0, MESSAGE_MAX + 1);
  const line = head.replaceAll(/[\p{C}\s\uFFFD]+/gu, " ").trim();
  return head.length > MESSAGE_MAX ? `${line}…` : line;
}

function toError(call: Invocation, outcome: CommandResult): AppError {
  const { plugin, command } = call;
  const answer = parseJson(outcome.stdout);
  if (!isJsonObject(answer) || typeof answer["code"] !== "number") {
    const outputs = [outcome.stderr, outcome.stdout].map(oneLine);
    const output = outputs.filter((text) => text !== "").slice(0, 1);
    const message = [`exit code ${String(outcome.exitCode)}`, ...output].join(": ");
    return new AppError("CNI_PLUGIN_FAILED", { plugin, command, message, cniCode: 0 });
  }
  const { code: cniCode, msg, details } = answer;
  const message = [msg, details].filter((part) => typeof part === "string" && part !== "");
  const text = oneLine(message.join("; "));
  return CONFIG_CODES.includes(cniCode)
    ? new AppError("CNI_CONFIG_INVALID", {
        network: call.network,
        reason: `plugin ${plugin}: ${text}`,
        cniCode,
      })
    : new AppError("CNI_PLUGIN_FAILED", { plugin, command, message: text, cniCode });
}

/**
 * Runs the plugin from the first directory that has it, and returns its standard output.
 * @throws AppError with CNI_PLUGIN_MISSING, CNI_TIMED_OUT, CNI_PLUGIN_FAILED, CNI_CONFIG_INVALID
 */
export async function invokePlugin(host: PluginHost, call: Invocation): Promise<string> {
  for (const directory of host.binDirs) {
    const outcome = await runFrom(directory, host, call);
    if (outcome === undefined) continue;
    if (outcome.exitCode !== 0) throw toError(call, outcome);
    return outcome.stdout;
  }
  throw new AppError("CNI_PLUGIN_MISSING", { plugin: call.plugin, path: host.binDirs.join(":") });
}

/** VERSION has no side effects. */
const VERSION_TIMEOUT_MS = 5_000;

/** Versions by plugin; undefined if the plugin's answer was not understood. */
export type KnownVersions = Map<string, Promise<readonly string[] | undefined>>;

/** Queried once per plugin. A plugin without VERSION is used with the version of the configuration. */
export async function querySupportedVersions(
  host: PluginHost,
  known: KnownVersions,
  plugin: string,
): Promise<readonly string[] | undefined> {
  const before = known.get(plugin);
  if (before !== undefined) return before;
  // Concurrent callers share one query; a failed one is repeated.
  const query = queryVersions(host, plugin).then(parseVersions);
  known.set(plugin, query);
  let versions: readonly string[] | undefined;
  try {
    versions = await query;
    return versions;
  } finally {
    if (versions === undefined) known.delete(plugin);
  }
}

async function queryVersions(host: PluginHost, plugin: string): Promise<unknown> {
  try {
    const answer = await invokePlugin(host, {
      plugin,
      network: plugin,
      command: "VERSION",
      stdin: JSON.stringify({ cniVersion: "1.0.0" }),
      env: {},
      timeoutMs: VERSION_TIMEOUT_MS,
    });
    return parseJson(answer);
  } catch (error) {
    if (isAppError(error, "CNI_PLUGIN_FAILED") || isAppError(error, "CNI_CONFIG_INVALID")) {
      return undefined;
    }
    throw error;
  }
}
