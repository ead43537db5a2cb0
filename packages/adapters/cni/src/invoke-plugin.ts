// SPDX-License-Identifier: Apache-2.0
// Runs one CNI plugin once. Source: CNI SPEC 1.1 section 2, "Execution Protocol".
import { isJsonObject, parseJson } from "@patchbay/api";
import { AppError, isAppError } from "@patchbay/core";
import type { AttachmentRequest, CommandResult, ProcessRunner } from "@patchbay/core/ports";
import type { LimitFunction } from "p-limit";

/** What plugins and their own programs (iptables, ip) are looked up in. */
const PROGRAM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** The machine that runs plugins: directories that hold them, and processes. */
export interface PluginHost {
  readonly runner: ProcessRunner;
  /** Searched in order. Source: CNI SPEC 1.1 section 2, CNI_PATH. */
  readonly binDirs: readonly string[];
  /** How many plugins run at once. */
  readonly limit: LimitFunction;
  /** Whose plugins they are, the same for each process that follows another one: see {@link ProcessRunner.endFamily}. */
  readonly family: string;
  /** A process in whose mount and network namespaces plugins run; absent: in the caller's. */
  readonly hostProcess?: number;
}

/** One execution of a plugin, all that it is told. */
export interface Invocation {
  readonly plugin: string;
  /** Name of the network, for errors. */
  readonly network: string;
  readonly command: "ADD" | "DEL" | "CHECK" | "STATUS" | "GC" | "VERSION";
  readonly stdin: string;
  /** CNI_ variables beside CNI_COMMAND and CNI_PATH. */
  readonly env: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  /**
   * ADDRESS/LENGTH of a NIC whose network namespace is deleted. The plugin gets another namespace with a link of these
   * addresses, because it finds by them what it must remove on the host.
   */
  readonly standInAddresses?: readonly string[];
}

/** What a plugin is told of an attachment. */
export function envOf(request: AttachmentRequest): Readonly<Record<string, string>> {
  return {
    CNI_CONTAINERID: request.containerId,
    CNI_NETNS: request.netnsPath ?? "",
    CNI_IFNAME: request.interfaceName,
    CNI_ARGS: request.args.map(([key, value]) => `${key}=${value}`).join(";"),
  };
}

/** Codes after which only another configuration helps. Source: CNI SPEC 1.1 section 5, "Error". */
const CONFIG_CODES = [1, 2, 6, 7];

/** Most of a plugin's own words that is repeated, in characters: they go into events and an annotation of the pod. */
const WORDS_MAX = 1_000;

/** What a shell, and nsenter, exits with where there is no such program. Source: POSIX sh, 2.8.2. */
const NO_SUCH_PROGRAM = 127;

/**
 * Makes the link of a stand-in namespace, and runs the plugin outside. The namespace is deleted with this process. The link
 * is a veth, because the plugin needs that kernel module, too.
 */
const STAND_IN_SCRIPT = `
ip link add "$CNI_IFNAME" type veth
for address in $STAND_IN_ADDRESSES; do ip address add "$address" dev "$CNI_IFNAME"; done
CNI_NETNS=/proc/$$/ns/net nsenter --target "$PPID" --net -- "$@"`;

/** Plugins, what they load and what they call are the host's, and so are the links that they make: a runtime calls them so. */
function argvOf(
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

async function runIn(
  directory: string,
  host: PluginHost,
  call: Invocation,
): Promise<CommandResult | undefined> {
  try {
    const outcome = await host.limit(() =>
      host.runner.run({
        argv: argvOf(`${directory}/${call.plugin}`, host, call),
        stdin: call.stdin,
        env: {
          PATH: PROGRAM_PATH,
          ...call.env,
          ...(call.standInAddresses && { STAND_IN_ADDRESSES: call.standInAddresses.join(" ") }),
          CNI_COMMAND: call.command,
          CNI_PATH: host.binDirs.join(":"),
        },
        timeoutMs: call.timeoutMs,
        // One that outlived us would work on the sandbox beside the plugins of our successor, and so would its IPAM plugin.
        family: host.family,
      }),
    );
    return isMissing(host, call, outcome) ? undefined : outcome;
  } catch (error) {
    if (isAppError(error, "OS_PROGRAM_MISSING")) return undefined;
    if (isAppError(error, "OS_PROGRAM_FAILED")) throw cutOff(call, error);
    if (!isAppError(error, "OS_TIMED_OUT")) throw error;
    throw new AppError(
      "CNI_TIMED_OUT",
      { plugin: call.plugin, command: call.command, timeoutMs: call.timeoutMs },
      { cause: error },
    );
  }
}

/** A plugin that was killed since it wrote too much. */
function cutOff({ plugin, command }: Invocation, error: AppError): AppError {
  const message = String(error.details["stderr"]);
  return new AppError(
    "CNI_PLUGIN_FAILED",
    { plugin, command, message, cniCode: 0 },
    { cause: error },
  );
}

/** A plugin's words in one line of bounded length, whatever bytes it wrote. */
function wordsOf(text: string): string {
  const head = text.trimStart().slice(0, WORDS_MAX + 1);
  const words = head.replaceAll(/[\p{C}\s\uFFFD]+/gu, " ").trim();
  return head.length > WORDS_MAX ? `${words}…` : words;
}

function failureOf(call: Invocation, outcome: CommandResult): AppError {
  const { plugin, command } = call;
  const answer = parseJson(outcome.stdout);
  if (!isJsonObject(answer) || typeof answer["code"] !== "number") {
    const said = [outcome.stderr, outcome.stdout].map(wordsOf);
    const words = said.filter((text) => text !== "").slice(0, 1);
    const message = [`exit code ${String(outcome.exitCode)}`, ...words].join(": ");
    return new AppError("CNI_PLUGIN_FAILED", { plugin, command, message, cniCode: 0 });
  }
  const { code: cniCode, msg, details } = answer;
  const message = [msg, details].filter((part) => typeof part === "string" && part !== "");
  const text = wordsOf(message.join("; "));
  return CONFIG_CODES.includes(cniCode)
    ? new AppError("CNI_CONFIG_INVALID", {
        network: call.network,
        reason: `plugin ${plugin}: ${text}`,
        cniCode,
      })
    : new AppError("CNI_PLUGIN_FAILED", { plugin, command, message: text, cniCode });
}

/**
 * Runs the plugin that is found first in the directories; resolves with what it printed.
 * @throws AppError with CNI_PLUGIN_MISSING, CNI_TIMED_OUT, CNI_PLUGIN_FAILED, CNI_CONFIG_INVALID
 */
export async function invokePlugin(host: PluginHost, call: Invocation): Promise<string> {
  for (const directory of host.binDirs) {
    const outcome = await runIn(directory, host, call);
    if (outcome === undefined) continue;
    if (outcome.exitCode !== 0) throw failureOf(call, outcome);
    return outcome.stdout;
  }
  throw new AppError("CNI_PLUGIN_MISSING", { plugin: call.plugin, path: host.binDirs.join(":") });
}
