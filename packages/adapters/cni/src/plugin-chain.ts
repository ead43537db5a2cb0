// SPDX-License-Identifier: Apache-2.0
// Runs the plugins of a network configuration list. Source: CNI SPEC 1.1 sections 2 and 3.
import { isJsonObject, parseIp } from "@patchbay/api";
import { AppError, isAppError } from "@patchbay/core";
import type { AttachmentRequest, Cni, CniResult } from "@patchbay/core/ports";
import pLimit from "p-limit";
import { Gates } from "./gates.ts";
import { envOf, invokePlugin, type Invocation, type PluginHost } from "./invoke-plugin.ts";
import { isFileName, printPluginConfig } from "./network-config.ts";
import { parseResult } from "./result.ts";
import { findSupported, type KnownVersions } from "./spoken-versions.ts";
import { askStatus, checkAll, collectGarbage } from "./upkeep.ts";
import { isAtLeast, negotiateVersion } from "./version.ts";

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
/** "Container unknown": nothing to clean up. Source: CNI SPEC 1.1 section 5, "Error". */
const UNKNOWN_CONTAINER = 3;

type Plugin = AttachmentRequest["config"]["plugins"][number];

/** Runs CNI plugins, each in a process group of its own with a deadline. */
export function createCni(host: CniDeps): Cni {
  const deps: Host = { ...host, limit: pLimit(PLUGINS_MAX) };
  const supported: KnownVersions = new Map();
  const gates = new Gates();
  /** One operation at a time on a container, and none beside GC of its network. Source: CNI SPEC 1.1, "Lifecycle & Ordering". */
  const on = <T>({ config, containerId }: AttachmentRequest, work: () => Promise<T>): Promise<T> =>
    gates.together(`network ${config.name}`, () => gates.alone(`container ${containerId}`, work));
  return {
    add: (request) => on(request, () => addAll(deps, supported, request)),
    del: (request, prevResult) =>
      on(request, () => delAll(deps, supported, { request, prevResult })),
    check: (request, prevResult) => on(request, () => checkAll(deps, { request, prevResult })),
    status: (config) => askStatus(deps, supported, config),
    gc: (config, listValid) =>
      gates.alone(`network ${config.name}`, () =>
        collectGarbage(deps, supported, { config, listValid }),
      ),
    releaseAddresses: (request) => on(request, () => releaseAddresses(deps, supported, request)),
  };
}

interface Host extends CniDeps, PluginHost {}

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
  const standInAddresses = findMasqueraded(plugin, { request, prevResult });
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
    ...(standInAddresses.length > 0 && { standInAddresses }),
  };
}

/**
 * Addresses whose masquerading rules a plugin would leave behind, because it reads them from a namespace that is deleted.
 * Source: CNI plugins bridge and ptp, cmdDel.
 */
function findMasqueraded(plugin: Plugin, { request, prevResult }: Removal): readonly string[] {
  if (plugin["ipMasq"] !== true || request.netnsPath !== undefined) return [];
  const addresses = (prevResult?.ips ?? []).map(({ address }) => address);
  return addresses.filter((address) => parseIp(address) !== undefined);
}
