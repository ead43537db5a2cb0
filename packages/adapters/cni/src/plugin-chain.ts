// SPDX-License-Identifier: Apache-2.0
// Runs the plugins of a network configuration list. Source: CNI SPEC 1.1 sections 2 and 3.
import { isJsonObject, parseJson } from "@patchbay/api";
import { AppError, isAppError } from "@patchbay/core";
import type { AttachmentRequest, Cni, CniResult } from "@patchbay/core/ports";
import pLimit from "p-limit";
import { isFileName, printPluginConfig } from "./network-config.ts";
import { invokePlugin, type Invocation, type PluginHost } from "./invoke-plugin.ts";
import { parseResult } from "./result.ts";
import { isAtLeast, negotiateVersion, parseVersions } from "./version.ts";

/** The machine that runs plugins, how many at once, and how long one may take. */
export interface CniDeps extends Omit<PluginHost, "limit"> {
  /** Deadline of one plugin's ADD, milliseconds. Default: a minute, in which a DHCP server can answer. */
  readonly addTimeoutMs?: number;
}

/**
 * Plugins at once. Each starts programs of its own, and more of them end no sooner: after a start of the node the pods of
 * everybody come together, and what runs for them must not grow with their number.
 */
const PLUGINS_MAX = 8;
const ADD_TIMEOUT_MS = 60_000;
const DEL_TIMEOUT_MS = 30_000;
/** A plugin answers VERSION without doing anything. */
const VERSION_TIMEOUT_MS = 5_000;
/** "Container unknown": nothing to clean up. Source: CNI SPEC 1.1 section 5, "Error". */
const UNKNOWN_CONTAINER = 3;

type Plugin = AttachmentRequest["config"]["plugins"][number];

/** Runs CNI plugins, each in a process group of its own with a deadline. */
export function createCni(host: CniDeps): Cni {
  const deps: Host = { ...host, limit: pLimit(PLUGINS_MAX) };
  const supported: KnownVersions = new Map();
  return {
    add: (request) => addAll(deps, supported, request),
    del: (request, prevResult) => delAll(deps, supported, { request, prevResult }),
    releaseAddresses: (request) => releaseAddresses(deps, supported, request),
  };
}

interface Host extends CniDeps, PluginHost {}

function envOf(request: AttachmentRequest): Readonly<Record<string, string>> {
  return {
    CNI_CONTAINERID: request.containerId,
    CNI_NETNS: request.netnsPath ?? "",
    CNI_IFNAME: request.interfaceName,
    CNI_ARGS: request.args.map(([key, value]) => `${key}=${value}`).join(";"),
  };
}

/** What plugins have said of the versions that they speak; undefined: nothing that is understood. */
type KnownVersions = Map<string, Promise<readonly string[] | undefined>>;

/**
 * Asks a plugin which versions it speaks, once. Also finds out early that it is missing. One that does not know the
 * question is none the worse for it: the version of the configuration is spoken, as a runtime does that never asks.
 */
async function findSupported(
  host: PluginHost,
  known: KnownVersions,
  plugin: string,
): Promise<readonly string[] | undefined> {
  const before = known.get(plugin);
  if (before !== undefined) return before;
  // Whoever comes while it is asked waits for the same answer; an answer that is none is asked for again.
  const asked = askVersions(host, plugin).then(parseVersions);
  known.set(plugin, asked);
  let versions: readonly string[] | undefined;
  try {
    versions = await asked;
    return versions;
  } finally {
    if (versions === undefined) known.delete(plugin);
  }
}

async function askVersions(host: PluginHost, plugin: string): Promise<unknown> {
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

async function addAll(
  deps: Host,
  known: KnownVersions,
  request: AttachmentRequest,
): Promise<CniResult> {
  const { config } = request;
  const supported: (readonly string[] | undefined)[] = [];
  for (const { type } of config.plugins) supported.push(await findSupported(deps, known, type));
  const cniVersion = negotiateVersion(config.cniVersion, supported);
  let result: CniResult | undefined;
  for (const plugin of config.plugins) {
    const invocation: Invocation = {
      plugin: plugin.type,
      network: config.name,
      command: "ADD",
      stdin: printPluginConfig(
        plugin,
        { name: config.name, cniVersion },
        {
          capabilityArgs: request.capabilityArgs,
          prevResult: isAtLeast(cniVersion, "0.3.0") ? result : undefined,
        },
      ),
      env: envOf(request),
      timeoutMs: deps.addTimeoutMs ?? ADD_TIMEOUT_MS,
    };
    result = readResult(plugin, await invokePlugin(deps, invocation), cniVersion);
  }
  return result ?? { cniVersion };
}

function readResult(plugin: Plugin, text: string, cniVersion: string): CniResult {
  const result = parseResult(text, cniVersion);
  if (result !== undefined) return result;
  throw new AppError("CNI_PLUGIN_FAILED", {
    plugin: plugin.type,
    command: "ADD",
    message: "the answer is not a CNI result",
    cniCode: 0,
  });
}

/** Equivalent to what a plugin does with its IPAM plugin: same configuration, same environment. Source: CNI SPEC 1.1 section 4. */
async function releaseAddresses(
  deps: Host,
  known: KnownVersions,
  request: AttachmentRequest,
): Promise<void> {
  for (const plugin of request.config.plugins.toReversed()) {
    const ipam = isJsonObject(plugin["ipam"]) ? plugin["ipam"]["type"] : undefined;
    if (typeof ipam !== "string" || !isFileName(ipam)) continue;
    const supported = [await findSupported(deps, known, ipam)];
    const cniVersion = negotiateVersion(request.config.cniVersion, supported);
    await invokePlugin(deps, {
      ...delInvocation(plugin, cniVersion, { request, prevResult: undefined }),
      plugin: ipam,
    });
  }
}

/** One DEL of a list. */
interface Removal {
  readonly request: AttachmentRequest;
  readonly prevResult: CniResult | undefined;
}

async function delAll(deps: Host, known: KnownVersions, removal: Removal): Promise<void> {
  const { request, prevResult } = removal;
  const failures: unknown[] = [];
  for (const plugin of request.config.plugins.toReversed()) {
    try {
      // The version of ADD, where it is known: a plugin refuses a previous result of another version.
      const cniVersion =
        prevResult?.cniVersion ??
        negotiateVersion(request.config.cniVersion, [
          await findSupported(deps, known, plugin.type),
        ]);
      await invokePlugin(deps, delInvocation(plugin, cniVersion, removal));
    } catch (error) {
      // One plugin that cannot clean up must not keep the others from it; the first failure is reported.
      if (!isUnknownContainer(error)) failures.push(error);
    }
  }
  if (failures.length > 0) throw failures[0];
}

function isUnknownContainer(error: unknown): boolean {
  return isAppError(error, "CNI_PLUGIN_FAILED") && error.details["cniCode"] === UNKNOWN_CONTAINER;
}

function delInvocation(
  plugin: Plugin,
  cniVersion: string,
  { request, prevResult }: Removal,
): Invocation {
  const { config, capabilityArgs } = request;
  return {
    plugin: plugin.type,
    network: config.name,
    command: "DEL",
    stdin: printPluginConfig(
      plugin,
      { name: config.name, cniVersion },
      { capabilityArgs, prevResult: isAtLeast(cniVersion, "0.4.0") ? prevResult : undefined },
    ),
    env: envOf(request),
    timeoutMs: DEL_TIMEOUT_MS,
  };
}
