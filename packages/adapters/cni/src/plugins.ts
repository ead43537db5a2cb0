// SPDX-License-Identifier: Apache-2.0
// Runs ADD, DEL, CHECK, STATUS and GC of all CNI plugins in a network configuration, each with a deadline. Source: CNI
// SPEC 1.1 sections 2 and 3
import { isJsonObject, parseJson } from "@patchbay/api/json";
import { parseIp } from "@patchbay/api/values";
import { AppError, isAppError, SHARE_KEYS, SharePool } from "@patchbay/base";
import type {
  AttachmentRequest,
  CommandResult,
  ProcessRunner,
  AttachmentName,
  CniResult,
  NetworkConfigList,
  Cni,
} from "@patchbay/core/interfaces";
import { parseVersions, isAtLeast, negotiateVersion } from "./version.ts";
import { printPluginConfig, isFileName, parseResult } from "./formats.ts";

/** PATH for programs that plugins run, such as iptables and ip. */
const PROGRAM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

interface PluginHost {
  readonly runner: ProcessRunner;
  /** Directories that are searched for a plugin, in this order. Source: CNI SPEC 1.1 section 2, CNI_PATH */
  readonly binDirs: readonly string[];
  readonly slots: SharePool;
  /** Name of the plugins' process family, which stays the same when this process restarts. See {@link ProcessRunner.killProcessFamily}. */
  readonly family: string;
  /** PID of a process in whose mount and network namespaces plugins run. If unset, they run in this process's namespaces. */
  readonly hostProcess?: number;
}

interface Invocation {
  readonly plugin: string;
  readonly network: string;
  readonly command: "ADD" | "DEL" | "CHECK" | "STATUS" | "GC" | "VERSION";
  readonly stdin: string;
  /** CNI environment variables except CNI_COMMAND and CNI_PATH. */
  readonly env: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  /**
   * Addresses, as ADDRESS/LENGTH, of a NIC whose network namespace was deleted. The plugin gets a temporary namespace
   * with these addresses, because it finds its masquerading rules on the host by the addresses in the namespace.
   */
  readonly standInAddresses?: readonly string[];
}

function buildEnvironment(request: AttachmentRequest): Readonly<Record<string, string>> {
  return {
    CNI_CONTAINERID: request.containerId,
    CNI_NETNS: request.netnsPath ?? "",
    CNI_IFNAME: request.interfaceName,
    CNI_ARGS: request.args.map(([key, value]) => `${key}=${value}`).join(";"),
  };
}

/** CNI codes of errors that persist until the configuration changes. Source: CNI SPEC 1.1 section 5, "Error" */
const CONFIG_CODES = [1, 2, 6, 7];

/** Maximum length of a plugin's message in events and in an annotation, in characters. */
const MESSAGE_MAX = 1_000;

/** Exit code of a shell and of nsenter if the program to run does not exist. Source: POSIX sh, 2.8.2 */
const NO_SUCH_PROGRAM = 127;

/**
 * Script that `unshare` runs in a new network namespace, which stands in for a pod's deleted one. It adds a link with the pod's addresses,
 * and then runs the plugin in the parent process's namespace with CNI_NETNS set to the new namespace. The link is a veth, because plugins
 * that masquerade create veths too and the kernel therefore supports them.
 */
const STAND_IN_SCRIPT = `
ip link add "$CNI_IFNAME" type veth
for address in $STAND_IN_ADDRESSES; do ip address add "$address" dev "$CNI_IFNAME"; done
CNI_NETNS=/proc/$$/ns/net nsenter --target "$PPID" --net -- "$@"`;

/** Builds the command line that runs a plugin in the host's namespaces, in which a container runtime would run it. */
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

function toShareKey({ env }: Invocation): string {
  const [, namespace] = /(?:^|;)K8S_POD_NAMESPACE=([^;]+)/.exec(env["CNI_ARGS"] ?? "") ?? [];
  return namespace === undefined ? SHARE_KEYS.system("cni") : SHARE_KEYS.namespace(namespace);
}

async function runFromDirectory(
  directory: string,
  host: PluginHost,
  call: Invocation,
): Promise<CommandResult | undefined> {
  try {
    const outcome = await host.slots.run(toShareKey(call), () =>
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
        // A restarted agent kills leftover plugins of this family, because they would interfere with new plugins in the same sandbox.
        processFamily: host.family,
      }),
    );
    return isMissing(host, call, outcome) ? undefined : outcome;
  } catch (error) {
    if (isAppError(error, "OS_PROGRAM_MISSING")) return undefined;
    if (isAppError(error, "OS_PROGRAM_FAILED")) throw outputTooLongError(call, error);
    if (!isAppError(error, "OS_TIMED_OUT")) throw error;
    throw new AppError(
      "CNI_TIMED_OUT",
      { plugin: call.plugin, command: call.command, timeoutMs: call.timeoutMs },
      { cause: error },
    );
  }
}

function outputTooLongError({ plugin, command }: Invocation, error: AppError): AppError {
  const message = String(error.details["stderr"]);
  return new AppError(
    "CNI_PLUGIN_FAILED",
    { plugin, command, message, cniCode: 0 },
    { cause: error },
  );
}

function toSingleLine(text: string): string {
  const start = text.trimStart().slice(0, MESSAGE_MAX + 1);
  const line = start.replaceAll(/[\p{C}\s\uFFFD]+/gu, " ").trim();
  return start.length > MESSAGE_MAX ? `${line}…` : line;
}

function toError(call: Invocation, outcome: CommandResult): AppError {
  const { plugin, command } = call;
  const answer = parseJson(outcome.stdout);
  if (!isJsonObject(answer) || typeof answer["code"] !== "number") {
    const outputs = [outcome.stderr, outcome.stdout].map(toSingleLine);
    const output = outputs.filter((text) => text !== "").slice(0, 1);
    const message = [`exit code ${String(outcome.exitCode)}`, ...output].join(": ");
    return new AppError("CNI_PLUGIN_FAILED", { plugin, command, message, cniCode: 0 });
  }
  const { code: cniCode, msg, details } = answer;
  const message = [msg, details].filter((part) => typeof part === "string" && part !== "");
  const text = toSingleLine(message.join("; "));
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
async function invokePlugin(host: PluginHost, call: Invocation): Promise<string> {
  for (const directory of host.binDirs) {
    const outcome = await runFromDirectory(directory, host, call);
    if (outcome === undefined) continue;
    if (outcome.exitCode !== 0) throw toError(call, outcome);
    return outcome.stdout;
  }
  throw new AppError("CNI_PLUGIN_MISSING", { plugin: call.plugin, path: host.binDirs.join(":") });
}

const VERSION_TIMEOUT_MS = 5_000;

/** Supported CNI versions by plugin name. Undefined if the plugin sent no valid list in response to VERSION. */
type KnownVersions = Map<string, Promise<readonly string[] | undefined>>;

/** Queries a plugin's versions, and caches them. Returns undefined if the plugin sends no valid list, or does not implement VERSION. */
async function querySupportedVersions(
  host: PluginHost,
  versionCache: KnownVersions,
  plugin: string,
): Promise<readonly string[] | undefined> {
  const cachedVersions = versionCache.get(plugin);
  if (cachedVersions !== undefined) return cachedVersions;
  // Concurrent callers share one query. A failed query is removed, so that the next caller repeats the query.
  const query = queryVersions(host, plugin).then(parseVersions);
  versionCache.set(plugin, query);
  let versions: readonly string[] | undefined;
  try {
    versions = await query;
    return versions;
  } finally {
    if (versions === undefined) versionCache.delete(plugin);
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

/** Time limit of CHECK and of STATUS, in milliseconds. */
const READ_TIMEOUT_MS = 10_000;
/** Time limit of GC, in milliseconds. GC runs DEL for stale attachments, so it has the time limit of DEL. */
const GC_TIMEOUT_MS = 30_000;
const STATUS_AND_GC_VERSION = "1.1.0";

type Plugin = NetworkConfigList["plugins"][number];

/** Checks whether the plugin is `bridge` without IPAM, for which CHECK always fails. Source: plugins 1.1.1, bridge cmdCheck */
function requiresMissingIpam({ type, ipam }: Plugin): boolean {
  return type === "bridge" && !(isJsonObject(ipam) && typeof ipam["type"] === "string");
}

/**
 * Removes the bridge's MAC from the result of ADD, so that CHECK does not compare the MAC. A bridge without a
 * configured MAC can take another MAC from a port. Source: plugins 1.1.1, bridge validateCniBrInterface
 */
function withoutBridgeMac({ type }: Plugin, result: CniResult): CniResult {
  if (type !== "bridge" || result.interfaces === undefined) return result;
  const [bridge, ...otherNics] = result.interfaces;
  if (bridge === undefined || (bridge.sandbox ?? "") !== "") return result;
  return { ...result, interfaces: [{ ...bridge, mac: "" }, ...otherNics] };
}

async function checkAll(
  host: PluginHost,
  { request, prevResult }: { readonly request: AttachmentRequest; readonly prevResult: CniResult },
): Promise<boolean> {
  const { config, capabilityArgs } = request;
  const { cniVersion } = prevResult;
  if (config.disableCheck === true || !isAtLeast(cniVersion, "0.4.0")) return false;
  const checkedPlugins = config.plugins.filter((plugin) => !requiresMissingIpam(plugin));
  for (const plugin of checkedPlugins) {
    const network = { name: config.name, cniVersion };
    await invokePlugin(host, {
      plugin: plugin.type,
      network: config.name,
      command: "CHECK",
      stdin: printPluginConfig(plugin, network, {
        capabilityArgs,
        prevResult: withoutBridgeMac(plugin, prevResult),
      }),
      env: buildEnvironment(request),
      timeoutMs: READ_TIMEOUT_MS,
    });
  }
  return checkedPlugins.length > 0;
}

async function listSupportingPlugins(
  host: PluginHost,
  versionCache: KnownVersions,
  { cniVersion, plugins }: NetworkConfigList,
): Promise<readonly Plugin[]> {
  if (!isAtLeast(cniVersion, STATUS_AND_GC_VERSION)) return [];
  const supportingPlugins: Plugin[] = [];
  for (const plugin of plugins) {
    const versions = await querySupportedVersions(host, versionCache, plugin.type);
    if (versions?.includes(STATUS_AND_GC_VERSION) === true) supportingPlugins.push(plugin);
  }
  return supportingPlugins;
}

async function checkStatus(
  host: PluginHost,
  versionCache: KnownVersions,
  config: NetworkConfigList,
): Promise<boolean> {
  const supportingPlugins = await listSupportingPlugins(host, versionCache, config);
  for (const plugin of supportingPlugins) {
    await invokePlugin(host, {
      plugin: plugin.type,
      network: config.name,
      command: "STATUS",
      stdin: printPluginConfig(
        plugin,
        { name: config.name, cniVersion: STATUS_AND_GC_VERSION },
        {},
      ),
      env: {},
      timeoutMs: READ_TIMEOUT_MS,
    });
  }
  return supportingPlugins.length > 0;
}

async function collectGarbage(
  host: PluginHost,
  versionCache: KnownVersions,
  target: {
    readonly config: NetworkConfigList;
    readonly listValid: () => Promise<readonly AttachmentName[]>;
  },
): Promise<boolean> {
  const { config } = target;
  const supportingPlugins =
    config.disableGC === true ? [] : await listSupportingPlugins(host, versionCache, config);
  if (supportingPlugins.length === 0) return false;
  const validAttachments = (await target.listValid()).map(({ containerId, interfaceName }) => ({
    containerID: containerId,
    ifname: interfaceName,
  }));
  // Sends the list under both keys, like libcni, because versions of the specification use different keys.
  const additionalKeys = {
    "cni.dev/valid-attachments": validAttachments,
    "cni.dev/attachments": validAttachments,
  };
  const failures: unknown[] = [];
  for (const plugin of supportingPlugins) {
    await invokePlugin(host, {
      plugin: plugin.type,
      network: config.name,
      command: "GC",
      stdin: printPluginConfig(
        plugin,
        { name: config.name, cniVersion: STATUS_AND_GC_VERSION },
        { more: additionalKeys },
      ),
      env: {},
      timeoutMs: GC_TIMEOUT_MS,
    }).catch((error: unknown) => failures.push(error));
  }
  if (failures.length > 0) throw failures[0];
  return true;
}

interface Lock {
  holders: number;
  isExclusive: boolean;
  waiters: (() => void)[];
}

export class SharedLocks {
  readonly #locks = new Map<string, Lock>();

  /** Runs `work` concurrently with other shared operations, but not while an exclusive operation runs or is queued. */
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

  /** Runs `work` when all running operations on the name have ended. Later operations wait until `work` ends. */
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
    const waiters = lock.waiters.splice(0);
    if (waiters.length === 0 && lock.holders === 0 && !lock.isExclusive) this.#locks.delete(name);
    for (const wake of waiters) wake();
  }
}

function waitForChange(lock: Lock): Promise<void> {
  return new Promise((resolve) => {
    lock.waiters.push(resolve);
  });
}

export function wrapCni(cni: Cni, overrides: Partial<Cni>): Cni {
  return {
    add: (request) => cni.add(request),
    del: (request, prevResult) => cni.del(request, prevResult),
    check: (request, prevResult) => cni.check(request, prevResult),
    status: (config) => cni.status(config),
    gc: (config, listValid) => cni.gc(config, listValid),
    releaseAddresses: (request) => cni.releaseAddresses(request),
    ...overrides,
  };
}

interface CniDeps extends Omit<PluginHost, "slots"> {
  /** Time limit of one plugin's ADD, in milliseconds. Default: 60 000, because a DHCP server may be slow. */
  readonly addTimeoutMs?: number;
}

/** Limits on concurrent plugins. Without a limit, a node restart could start the plugins of all pods at once. */
const PLUGIN_LIMITS = { max: 8, share: 4, reserve: 1 };
const ADD_TIMEOUT_MS = 60_000;
const DEL_TIMEOUT_MS = 30_000;
/** CNI error code "container unknown". DEL counts this error as success. Source: CNI SPEC 1.1 section 5, "Error" */
const UNKNOWN_CONTAINER = 3;

export function createCni(host: CniDeps): Cni {
  const deps: Host = { ...host, slots: new SharePool(PLUGIN_LIMITS) };
  const versionCache: KnownVersions = new Map();
  const locks = new SharedLocks();
  // Operations share the network's lock, which GC acquires exclusively. Source: CNI SPEC 1.1, "Lifecycle & Ordering"
  const withLocks = <T>(
    { config, containerId }: AttachmentRequest,
    work: () => Promise<T>,
  ): Promise<T> =>
    locks.runShared(`network ${config.name}`, () =>
      locks.runExclusive(`container ${containerId}`, work),
    );
  return {
    add: (request) => withLocks(request, () => addAll(deps, versionCache, request)),
    del: (request, prevResult) =>
      withLocks(request, () => delAll(deps, versionCache, { request, prevResult })),
    check: (request, prevResult) =>
      withLocks(request, () => checkAll(deps, { request, prevResult })),
    status: (config) => checkStatus(deps, versionCache, config),
    gc: (config, listValid) =>
      locks.runExclusive(`network ${config.name}`, () =>
        collectGarbage(deps, versionCache, { config, listValid }),
      ),
    releaseAddresses: (request) =>
      withLocks(request, () => releaseAddresses(deps, versionCache, request)),
  };
}

interface Host extends CniDeps, PluginHost {}

async function addAll(
  deps: Host,
  versionCache: KnownVersions,
  request: AttachmentRequest,
): Promise<CniResult> {
  const { config } = request;
  const supportedVersions: (readonly string[] | undefined)[] = [];
  for (const { type } of config.plugins)
    supportedVersions.push(await querySupportedVersions(deps, versionCache, type));
  const cniVersion = negotiateVersion(config.cniVersion, supportedVersions);
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

/** Runs DEL of the IPAM plugins only, with the main plugin's configuration. Source: CNI SPEC 1.1 section 4 */
async function releaseAddresses(
  deps: Host,
  versionCache: KnownVersions,
  request: AttachmentRequest,
): Promise<void> {
  for (const plugin of request.config.plugins.toReversed()) {
    const ipam = isJsonObject(plugin["ipam"]) ? plugin["ipam"]["type"] : undefined;
    if (typeof ipam !== "string" || !isFileName(ipam)) continue;
    const supportedVersions = [await querySupportedVersions(deps, versionCache, ipam)];
    const cniVersion = negotiateVersion(request.config.cniVersion, supportedVersions);
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

async function delAll(deps: Host, versionCache: KnownVersions, removal: Removal): Promise<void> {
  const { request, prevResult } = removal;
  const failures: unknown[] = [];
  for (const plugin of request.config.plugins.toReversed()) {
    try {
      // Uses the CNI version of ADD's result, because plugins reject a result of another version. Without a result, negotiates a version.
      const cniVersion =
        prevResult?.cniVersion ??
        negotiateVersion(request.config.cniVersion, [
          await querySupportedVersions(deps, versionCache, plugin.type),
        ]);
      await invokePlugin(deps, delInvocation(plugin, cniVersion, removal));
    } catch (error) {
      // The loop continues after a failure, so that the remaining plugins can clean up.
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
  const standInAddresses = findMasqueradedAddresses(plugin, { request, prevResult });
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
 * Finds the addresses whose masquerading rules DEL would leave on the host: plugins find the rules by the addresses in
 * the pod's network namespace, which no longer exists. Source: CNI plugins bridge and ptp, cmdDel
 */
function findMasqueradedAddresses(
  plugin: Plugin,
  { request, prevResult }: Removal,
): readonly string[] {
  if (plugin["ipMasq"] !== true || request.netnsPath !== undefined) return [];
  const addresses = (prevResult?.ips ?? []).map(({ address }) => address);
  return addresses.filter((address) => parseIp(address) !== undefined);
}
