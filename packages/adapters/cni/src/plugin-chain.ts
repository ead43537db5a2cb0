// SPDX-License-Identifier: Apache-2.0
// Runs the plugins of a network configuration list. Source: CNI SPEC 1.1 sections 2 and 3
import { isJsonObject, parseIp } from "@patchbay/api";
import { AppError, isAppError } from "@patchbay/base";
import type { AttachmentRequest, Cni, CniResult } from "@patchbay/core/interfaces";
import pLimit from "p-limit";
import {
  buildEnvironment,
  querySupportedVersions,
  type Invocation,
  invokePlugin,
  type KnownVersions,
  type PluginHost,
} from "./invoke-plugin.ts";
import { isFileName, printPluginConfig } from "./network-config.ts";
import { parseResult } from "./result.ts";
import { checkStatus, checkAll, collectGarbage } from "./check-status-gc.ts";
import { isAtLeast, negotiateVersion } from "./version.ts";

interface Lock {
  holders: number;
  isExclusive: boolean;
  waiters: (() => void)[];
}

/** Locks by name, either shared by many operations or held by one. */
export class SharedLocks {
  readonly #locks = new Map<string, Lock>();

  /** Waits for an exclusive operation, then runs beside other shared ones. */
  async runShared<T>(name: string, work: () => Promise<T>): Promise<T> {
    const lock = this.#getLock(name);
    while (lock.isExclusive) await waitForChange(lock);
    lock.holders += 1;
    try {
      return await work();
    } finally {
      lock.holders -= 1;
      this.#notify(name, lock);
    }
  }

  /** Waits for running operations; later ones wait for it. */
  async runExclusive<T>(name: string, work: () => Promise<T>): Promise<T> {
    const lock = this.#getLock(name);
    while (lock.isExclusive) await waitForChange(lock);
    lock.isExclusive = true;
    try {
      while (lock.holders > 0) await waitForChange(lock);
      return await work();
    } finally {
      lock.isExclusive = false;
      this.#notify(name, lock);
    }
  }

  #getLock(name: string): Lock {
    const lock = this.#locks.get(name) ?? { holders: 0, isExclusive: false, waiters: [] };
    this.#locks.set(name, lock);
    return lock;
  }

  #notify(name: string, lock: Lock): void {
    const waiting = lock.waiters.splice(0);
    if (waiting.length === 0 && lock.holders === 0 && !lock.isExclusive) this.#locks.delete(name);
    for (const wake of waiting) wake();
  }
}

function waitForChange(lock: Lock): Promise<void> {
  return new Promise((resolve) => {
    lock.waiters.push(resolve);
  });
}

/** Replaces operations by those in `changed`. */
export function wrapCni(cni: Cni, changed: Partial<Cni>): Cni {
  return {
    add: (request) => cni.add(request),
    del: (request, prevResult) => cni.del(request, prevResult),
    check: (request, prevResult) => cni.check(request, prevResult),
    status: (config) => cni.status(config),
    gc: (config, listValid) => cni.gc(config, listValid),
    releaseAddresses: (request) => cni.releaseAddresses(request),
    ...changed,
  };
}

interface CniDeps extends Omit<PluginHost, "limit"> {
  /** Deadline of one plugin's ADD, milliseconds. Default: a minute, in which a DHCP server can answer. */
  readonly addTimeoutMs?: number;
}

/**
 * Plugins at once, because each starts programs of its own and more would not finish sooner. After a node's start all
 * pods arrive together, and the load must not grow with their number.
 */
const PLUGINS_MAX = 8;
const ADD_TIMEOUT_MS = 60_000;
const DEL_TIMEOUT_MS = 30_000;
/** "Container unknown": nothing to clean up. Source: CNI SPEC 1.1 section 5, "Error" */
const UNKNOWN_CONTAINER = 3;

type Plugin = AttachmentRequest["config"]["plugins"][number];

/** Runs each plugin in a process group of its own with a deadline. */
export function createCni(host: CniDeps): Cni {
  const deps: Host = { ...host, limit: pLimit(PLUGINS_MAX) };
  const supported: KnownVersions = new Map();
  const locks = new SharedLocks();
  /** GC of a network excludes its other operations. Source: CNI SPEC 1.1, "Lifecycle & Ordering" */
  const withLocks = <T>(
    { config, containerId }: AttachmentRequest,
    work: () => Promise<T>,
  ): Promise<T> =>
    locks.runShared(`network ${config.name}`, () =>
      locks.runExclusive(`container ${containerId}`, work),
    );
  return {
    add: (request) => withLocks(request, () => addAll(deps, supported, request)),
    del: (request, prevResult) =>
      withLocks(request, () => delAll(deps, supported, { request, prevResult })),
    check: (request, prevResult) =>
      withLocks(request, () => checkAll(deps, { request, prevResult })),
    status: (config) => checkStatus(deps, supported, config),
    gc: (config, listValid) =>
      locks.runExclusive(`network ${config.name}`, () =>
        collectGarbage(deps, supported, { config, listValid }),
      ),
    releaseAddresses: (request) =>
      withLocks(request, () => releaseAddresses(deps, supported, request)),
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
  for (const { type } of config.plugins)
    supported.push(await querySupportedVersions(deps, known, type));
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
      env: buildEnvironment(request),
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

/** Same configuration and environment as the main plugin's. Source: CNI SPEC 1.1 section 4 */
async function releaseAddresses(
  deps: Host,
  known: KnownVersions,
  request: AttachmentRequest,
): Promise<void> {
  for (const plugin of request.config.plugins.toReversed()) {
    const ipam = isJsonObject(plugin["ipam"]) ? plugin["ipam"]["type"] : undefined;
    if (typeof ipam !== "string" || !isFileName(ipam)) continue;
    const supported = [await querySupportedVersions(deps, known, ipam)];
    const cniVersion = negotiateVersion(request.config.cniVersion, supported);
    await invokePlugin(deps, {
      ...delInvocation(plugin, cniVersion, { request, prevResult: undefined }),
      plugin: ipam,
    });
  }
}

interface Removal {
  readonly request: AttachmentRequest;
  readonly prevResult: CniResult | undefined;
}

async function delAll(deps: Host, known: KnownVersions, removal: Removal): Promise<void> {
  const { request, prevResult } = removal;
  const failures: unknown[] = [];
  for (const plugin of request.config.plugins.toReversed()) {
    try {
      // The version of ADD if it is known, because plugins refuse a previous result of another version.
      const cniVersion =
        prevResult?.cniVersion ??
        negotiateVersion(request.config.cniVersion, [
          await querySupportedVersions(deps, known, plugin.type),
        ]);
      await invokePlugin(deps, delInvocation(plugin, cniVersion, removal));
    } catch (error) {
      // Continues after a failed plugin, so that the others can clean up; reports the first failure.
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
    env: buildEnvironment(request),
    timeoutMs: DEL_TIMEOUT_MS,
    ...(standInAddresses.length > 0 && { standInAddresses }),
  };
}

/**
 * Addresses whose masquerading rules the plugin would leave behind, because it reads them from a namespace that was
 * deleted. Source: CNI plugins bridge and ptp, cmdDel
 */
function findMasqueraded(plugin: Plugin, { request, prevResult }: Removal): readonly string[] {
  if (plugin["ipMasq"] !== true || request.netnsPath !== undefined) return [];
  const addresses = (prevResult?.ips ?? []).map(({ address }) => address);
  return addresses.filter((address) => parseIp(address) !== undefined);
}
