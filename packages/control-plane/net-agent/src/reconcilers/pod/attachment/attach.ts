// SPDX-License-Identifier: Apache-2.0
// Attaches one network to a pod's sandbox by CNI ADD, or adopts an attachment of the container runtime.
// Source: NPWG 1.3 section 4.1.2; CNI CONVENTIONS.
import { names } from "@patchbay/api";
import {
  validateNetworkSelection,
  type NetworkSelection,
  parseNetworkStatus,
} from "@patchbay/api/annotations";
import { normalizeMac, parseIp, printAddress } from "@patchbay/api/values";
import {
  hasCapability,
  findNetworkStatus,
  withCniArgs,
  type JournalRow,
  buildNetworkStatuses,
} from "@patchbay/cni";
import { AppError, messageOf, isAppError } from "@patchbay/base";
import type { WantedAttachment, ForeignAttachment } from "@patchbay/core/nics";
import { parseKey } from "@patchbay/kube";
import type {
  AttachmentRequest,
  CniResult,
  NetworkConfigList,
  Sandbox,
  Link,
} from "@patchbay/core/interfaces";
import type { Deps } from "../../../deps.ts";
import { type PodFacts, mayUse, assertMayUse, findVmiOf } from "../observe.ts";
import { readDefinition, isUnusableDefinition } from "./definition.ts";
import { claimDefaultRoutes, assertMayRoute, buildInitialClaim } from "./default-route.ts";
import { detach } from "./detach.ts";
import { recordNodeNics } from "./node-nics.ts";
import { prepareDeviceInfo, withDeviceInfo, type RequestWithDevice, addDevice } from "./device.ts";
import { isEntryOf, requireSandbox, listLinks, openRowNetns } from "./netns.ts";
import { findForbidden, isRejection, assertAllowed } from "./policy.ts";
import {
  readPreferences,
  mayBeRejection,
  withoutPreferredMac,
  type Preferences,
} from "./preferences.ts";
import { reportLostAddresses, reportAttached } from "../report.ts";

/** Attributes that plugins receive unchanged, with the capability that each requires. Source: CNI CONVENTIONS; NPWG 1.3 section 4.1.2.1. */
const CAPABILITIES = [
  ["portMappings", "portMappings"],
  ["bandwidth", "bandwidth"],
  ["infiniband-guid", "infinibandGUID"],
] as const;

function toValuesByName(selection: NetworkSelection): ReadonlyMap<string, unknown> {
  return new Map<string, unknown>(Object.entries(selection));
}

/** @throws AppError with CNI_REQUEST_INVALID, whose reason contains all causes */
function assertValid({ network, selection }: WantedAttachment): void {
  const causes = validateNetworkSelection(selection).map(
    ({ field, message }) => `${field}: ${message}`,
  );
  if (causes.length === 0) return;
  throw new AppError("CNI_REQUEST_INVALID", { network, reason: causes.join("; ") });
}

async function readRequestedConfig(
  wanted: WantedAttachment,
  deps: Deps,
): Promise<NetworkConfigList> {
  const { network, selection } = wanted;
  assertValid(wanted);
  const config = await readDefinition(network, deps);
  const cniArgs = selection["cni-args"];
  return cniArgs == null ? config : withCniArgs(config, cniArgs);
}

/** Builds the CNI arguments that identify the pod. Source: CNI CONVENTIONS, "CNI_ARGS"; Kubernetes dockershim. */
function buildPodArgs(facts: PodFacts, sandbox: Sandbox): readonly (readonly [string, string])[] {
  const { namespace = "", name } = parseKey(facts.key);
  return [
    ["IgnoreUnknown", "1"],
    ["K8S_POD_NAMESPACE", namespace],
    ["K8S_POD_NAME", name],
    ["K8S_POD_INFRA_CONTAINER_ID", sandbox.id],
    ["K8S_POD_UID", facts.uid],
  ];
}

function buildArgs({ mac, ips = [] }: NetworkSelection): readonly (readonly [string, string])[] {
  return [
    ...(mac === undefined ? [] : [["MAC", normalizeMac(mac)] as const]),
    ...(ips.length === 0 ? [] : [["IP", ips.join(",")] as const]),
  ];
}

/** @throws AppError with CNI_REQUEST_NOT_MET if no plugin declares the capability of an attribute */
function buildDeclaredArgs(
  selection: NetworkSelection,
  config: NetworkConfigList,
): Readonly<Record<string, unknown>> {
  const values = toValuesByName(selection);
  const requested = CAPABILITIES.filter(([key]) => values.get(key) !== undefined);
  const undeclared = requested.find(([, capability]) => !hasCapability(config, capability));
  if (undeclared !== undefined) {
    const missingCapability = `${undeclared[0]}, which no plugin of the network supports`;
    throw new AppError("CNI_REQUEST_NOT_MET", { what: missingCapability });
  }
  return Object.fromEntries(requested.map(([key, capability]) => [capability, values.get(key)]));
}

function buildCapabilityArgs(
  selection: NetworkSelection,
  config: NetworkConfigList,
): Readonly<Record<string, unknown>> {
  const { mac, ips = [] } = selection;
  return {
    ...(mac !== undefined && hasCapability(config, "mac") ? { mac: normalizeMac(mac) } : {}),
    ...(ips.length > 0 && hasCapability(config, "ips") ? { ips } : {}),
    ...buildDeclaredArgs(selection, config),
  };
}

/** Builds the ADD request. @throws AppError with CNI_REQUEST_INVALID, CNI_REQUEST_NOT_MET, and the errors of {@link readDefinition} */
export async function buildRequest(
  wanted: WantedAttachment,
  target: { readonly facts: PodFacts; readonly sandbox: Sandbox },
  deps: Deps,
): Promise<AttachmentRequest> {
  const { facts, sandbox } = target;
  const config = await readRequestedConfig(wanted, deps);
  const selection = withoutPreferredMac(wanted.selection);
  return {
    containerId: sandbox.id,
    netnsPath: sandbox.netnsPath,
    interfaceName: wanted.interfaceName,
    config,
    args: [...buildPodArgs(facts, sandbox), ...buildArgs(selection)],
    capabilityArgs: buildCapabilityArgs(selection, config),
  };
}

function toCanonicalIp(text: string): string | undefined {
  const ip = parseIp(text);
  return ip && printAddress(ip);
}

/** Describes the requested MAC and addresses that the NIC lacks. `observedMac` is used if the result has no MAC. */
function findMissing(
  wanted: WantedAttachment,
  result: CniResult,
  observedMac: string | undefined,
): { readonly mac?: string; readonly ips?: string } {
  const { mac, ips = [] } = withoutPreferredMac(wanted.selection);
  const assigned = findNetworkStatus(result, wanted.network, wanted.interfaceName);
  const actualMac = assigned.mac ?? observedMac;
  const assignedIps = new Set((assigned.ips ?? []).map(toCanonicalIp));
  const missingIps = ips.filter((ip) => !assignedIps.has(toCanonicalIp(ip)));
  return {
    ...(mac === undefined || normalizeMac(mac) === normalizeMac(actualMac ?? "")
      ? {}
      : { mac: `MAC ${mac}; the interface has ${actualMac ?? "none"}` }),
    ...(missingIps.length === 0 ? {} : { ips: `addresses ${missingIps.join(", ")}` }),
  };
}

/** Builds a journal row. The sequence number records the order of attachment, because networks are detached in reverse order. */
async function buildRow(
  { network }: { readonly network: string },
  options: {
    readonly facts: PodFacts;
    readonly sandbox: Sandbox;
    readonly request: AttachmentRequest;
  },
  deps: Deps,
): Promise<Omit<JournalRow, "state">> {
  const { facts, sandbox, request } = options;
  const rows = await deps.journal.list(facts.uid);
  return {
    podUid: facts.uid,
    podNamespace: facts.attachments.namespace,
    podName: facts.key.slice(facts.attachments.namespace.length + 1),
    network,
    request,
    netnsInode: sandbox.netnsInode,
    bootId: deps.bootId,
    sequence: Math.max(0, ...rows.map((other) => other.sequence)) + 1,
  };
}

async function writeRow(row: JournalRow, facts: PodFacts, deps: Deps): Promise<void> {
  await deps.journal.write(row);
  deps.trackedPods.add(facts.key, facts.uid);
}

/** Writes a journal row before ADD, so that the attachment can be removed after a crash. */
export async function beginAttachment(
  network: Parameters<typeof buildRow>[0],
  options: RequestWithDevice & {
    readonly facts: PodFacts;
    readonly sandbox: Sandbox;
    readonly isDefault?: true;
    readonly selection?: JournalRow["selection"];
    readonly defaultRoute?: JournalRow["defaultRoute"];
  },
  deps: Deps,
): Promise<JournalRow> {
  const row: JournalRow = {
    ...(await buildRow(network, options, deps)),
    ...(options.isDefault === true && { isDefault: true }),
    ...(options.selection !== undefined && { selection: options.selection }),
    ...(options.defaultRoute !== undefined && { defaultRoute: options.defaultRoute }),
    ...(await recordNodeNics(options.request, deps)),
    ...(options.device !== undefined && { device: options.device }),
    state: "begun",
  };
  await writeRow(row, options.facts, deps);
  return row;
}

interface AddedAttachment {
  readonly row: JournalRow;
  readonly result: CniResult;
  /** Error message if the network rejected the MAC and addresses that the NIC had in the VM's previous pod; otherwise unset. */
  readonly rejection?: string;
}

/** Adds the NIC's routes and permanent neighbors to the row after ADD, so that `detach` can restore them if virt-handler moved them. */
async function withPaths(row: JournalRow, facts: PodFacts, deps: Deps): Promise<JournalRow> {
  const netns = openRowNetns(row, deps);
  if (netns === undefined) return row;
  try {
    const paths = await deps.podNetwork.readPaths(netns, row.request.interfaceName);
    const hasPaths = paths !== undefined && paths.routes.length + paths.neighbors.length > 0;
    return hasPaths ? { ...row, paths } : row;
  } catch (error) {
    const details = { pod: facts.key, reason: messageOf(error) };
    deps.log.warn("failed to record the routes of a NIC", details);
    return row;
  } finally {
    netns.close();
  }
}

/** Runs ADD. If a step fails, runs DEL, because ADD may have created a NIC or a lease. Source: CNI SPEC 1.1, "Lifecycle & Ordering". */
export async function addOrUndo(
  begun: JournalRow,
  options: { readonly facts: PodFacts; readonly check?: (result: CniResult) => Promise<void> },
  deps: Deps,
): Promise<AddedAttachment> {
  const { facts, check } = options;
  let row = begun;
  try {
    await prepareDeviceInfo(row, deps);
    const result = await deps.cni.add(row.request);
    row = await withPaths(await withDeviceInfo({ ...row, result }, deps), facts, deps);
    await check?.(result);
    const saveRow = async (changed: JournalRow): Promise<void> => {
      row = changed;
      await deps.journal.write(changed);
    };
    await claimDefaultRoutes(row, saveRow, deps);
    return { row, result };
  } catch (error) {
    // The caller gets the error of ADD. If DEL also fails, the row stays in state "begun", and the next pass retries DEL.
    await detach(row, facts, deps).catch((undoError: unknown) => {
      const reason = messageOf(undoError);
      deps.log.warn("failed to undo an attachment", { pod: facts.key, reason });
    });
    throw error;
  }
}

interface AttachmentConfig extends Pick<AttachmentRequest, "config" | "args" | "capabilityArgs"> {
  readonly result?: CniResult;
}

/** Builds the configuration that a later DEL of an adopted attachment needs. */
async function buildConfig(
  network: string,
  facts: PodFacts,
  context: { readonly sandbox: Sandbox; readonly deps: Deps },
): Promise<AttachmentConfig> {
  const { sandbox, deps } = context;
  return {
    config: await findUsableConfig(network, facts, deps),
    args: buildPodArgs(facts, sandbox),
    capabilityArgs: {},
  };
}

async function findUsableConfig(
  network: string,
  facts: PodFacts,
  deps: Deps,
): Promise<AttachmentRequest["config"]> {
  try {
    if (await mayUse(network, facts, deps)) {
      const config = await readDefinition(network, deps);
      const forbidden = await findForbidden({ network, config }, deps);
      if (forbidden === undefined || !isRejection(forbidden)) return config;
    }
  } catch (error) {
    if (!isUnusableDefinition(error)) throw error;
  }
  return { cniVersion: "1.0.0", name: parseKey(network).name, plugins: [] };
}

/** Writes a journal row for an attachment that the container runtime created. @throws AppError with SANDBOX_NOT_FOUND */
export async function adopt(
  { network, interfaceName }: ForeignAttachment,
  facts: PodFacts,
  deps: Deps,
): Promise<void> {
  const sandbox = requireSandbox(facts);
  const cached = await deps.resultCache.find(sandbox.id, interfaceName);
  const source = cached ?? (await buildConfig(network, facts, { sandbox, deps }));
  const { result, ...settings } = source;
  const { id: containerId, netnsPath } = sandbox;
  const request = { containerId, netnsPath, interfaceName, ...settings };
  const row: JournalRow = {
    ...(await buildRow({ network }, { facts, sandbox, request }, deps)),
    state: "attached",
    isAdopted: true,
    ...(result === undefined ? {} : { result }),
  };
  await writeRow(row, facts, deps);
  const isCached = cached !== undefined;
  deps.log.info("adopted network", {
    pod: facts.key,
    network,
    link: interfaceName,
    isRemembered: isCached,
  });
}

/** Attaches the network, or adopts an existing attachment. @throws AppError for an invalid request, a missing sandbox or a failed plugin */
export async function attach(wanted: WantedAttachment, facts: PodFacts, deps: Deps): Promise<void> {
  const sandbox = requireSandbox(facts);
  await assertMayUse(wanted.network, facts, deps);
  await assertMayRoute(wanted, facts, deps);
  const request = await buildRequest(wanted, { facts, sandbox }, deps);
  const { network, selection } = wanted;
  const pod = { namespace: facts.attachments.namespace, selection };
  await assertAllowed({ network, config: request.config, pod }, deps);
  const links = await listLinks(facts, deps);
  const existing = links.find((link) => link.name === wanted.interfaceName);
  if (existing !== undefined) {
    await adoptOrThrow(wanted, { facts, existing }, deps);
    return;
  }
  if (await isAttachedWithoutInterface(request, deps)) {
    await adopt(wanted, facts, deps);
    return;
  }
  const startMs = deps.clock.monotonicMs();
  const withDevice = await addDevice(wanted, { facts, sandbox, request }, deps);
  const preferred = readPreferences(wanted.selection, withDevice.request);
  const intent = { facts, sandbox, ...withDevice, preferred };
  const { row, result, rejection } = await addWithPreferred(wanted, intent, deps).catch(
    async (error: unknown) => {
      throw await explainFailure(error, wanted.network, deps);
    },
  );
  await deps.journal.write({ ...row, state: "attached", result });
  const durationMs = Math.round(deps.clock.monotonicMs() - startMs);
  reportAttached(wanted, { facts, result, durationMs }, deps);
  if (preferred !== undefined)
    reportLostAddresses(wanted, { facts, result, preferred, rejection }, deps);
}

/** Warnings about a definition, which do not explain a plugin's failure. */
const WARNING_CODES: readonly string[] = [
  "CNI_DEFINITION_TOLERATED",
  "CNI_DEFINITION_MEMBERS_IGNORED",
];

/** Returns the definition's problem, if any, instead of the plugin's error, because some plugins describe a missing link vaguely. */
async function explainFailure(error: unknown, network: string, deps: Deps): Promise<unknown> {
  if (!isAppError(error, "CNI_PLUGIN_FAILED")) return error;
  const problems = await deps.findProblems(network).catch(() => []);
  return problems.find(({ code }) => !WARNING_CODES.includes(code)) ?? error;
}

type Intent = Parameters<typeof beginAttachment>[1];

async function addNew(
  wanted: WantedAttachment,
  intent: Intent,
  deps: Deps,
): Promise<AddedAttachment> {
  const { facts } = intent;
  const { selection } = wanted;
  const row = await beginAttachment(
    wanted,
    { ...intent, selection, ...buildInitialClaim(wanted) },
    deps,
  );
  const check = (result: CniResult): Promise<void> =>
    assertRequestMet(wanted, { facts, result }, deps);
  return addOrUndo(row, { facts, check }, deps);
}

/** Runs ADD with the NIC's previous MAC and addresses, if they are known. If the network rejects them, repeats ADD without them. */
async function addWithPreferred(
  wanted: WantedAttachment,
  { preferred, ...intent }: Intent & { readonly preferred: Preferences | undefined },
  deps: Deps,
): Promise<AddedAttachment> {
  if (preferred?.request === undefined) return addNew(wanted, intent, deps);
  try {
    return await addNew(wanted, { ...intent, request: preferred.request }, deps);
  } catch (error) {
    const rows = await deps.journal.list(intent.facts.uid);
    const isLeftover = rows.some(
      ({ request, state }) => request.interfaceName === wanted.interfaceName && state !== "removed",
    );
    if (isLeftover || !mayBeRejection(error)) throw error;
    return { ...(await addNew(wanted, intent, deps)), rejection: messageOf(error) };
  }
}

/** Returns whether the runtime attached this network and the plugins' CNI result contains no interface. Source: CNI SPEC 1.1, "ADD". */
async function isAttachedWithoutInterface(
  { containerId, interfaceName, config }: AttachmentRequest,
  { mode, resultCache }: Deps,
): Promise<boolean> {
  if (mode !== "multus") return false;
  const cached = await resultCache.find(containerId, interfaceName);
  return (
    cached?.result !== undefined &&
    cached.config.name === config.name &&
    buildNetworkStatuses(cached.result, config.name, interfaceName).length === 0
  );
}

/** Adopts the existing NIC if the runtime or Multus created it for this network. @throws AppError with CNI_NAME_TAKEN */
async function adoptOrThrow(
  { network, interfaceName }: WantedAttachment,
  { facts, existing }: { readonly facts: PodFacts; readonly existing: Link },
  deps: Deps,
): Promise<void> {
  const rows = await deps.journal.list(facts.uid);
  if (rows.some((row) => row.isDefault === true && row.request.interfaceName === interfaceName)) {
    throw new AppError("CNI_NAME_TAKEN", { interface: interfaceName });
  }
  const text = facts.pod?.metadata.annotations?.[names.NETWORK_STATUS_ANNOTATION];
  const isReported = parseNetworkStatus(text).some(
    (entry) => entry.name === network && entry.default !== true && isEntryOf(existing, entry),
  );
  const isAttached =
    isReported || (await isCached({ network, interfaceName }, { facts, existing }, deps));
  // A NIC of another component must not be adopted, because a later DEL would remove it.
  if (!isAttached) throw new AppError("CNI_NAME_TAKEN", { interface: interfaceName });
  await adopt({ network, interfaceName }, facts, deps);
}

/** Returns whether libcni's cache contains this NIC for this network. Clients cannot edit the cache, unlike the pod's network-status. */
async function isCached(
  { network, interfaceName }: ForeignAttachment,
  { facts, existing }: { readonly facts: PodFacts; readonly existing: Link },
  deps: Deps,
): Promise<boolean> {
  if (deps.mode !== "multus") return false;
  const cached = await deps.resultCache.find(requireSandbox(facts).id, interfaceName);
  if (cached?.result === undefined) return false;
  const { name } = await readDefinition(network, deps);
  const { mac } = findNetworkStatus(cached.result, network, interfaceName);
  return cached.config.name === name && normalizeMac(mac ?? "") === normalizeMac(existing.mac);
}

/**
 * Checks that the result has the requested addresses and MAC. A launcher's MAC is not checked, because virt-handler sets the MAC if the
 * plugin cannot.
 * @throws AppError with CNI_REQUEST_NOT_MET
 */
export async function assertRequestMet(
  wanted: WantedAttachment,
  { facts, result }: { readonly facts: PodFacts; readonly result: CniResult },
  deps: Deps,
): Promise<void> {
  const actualMac = await readActualMac(wanted, { facts, result }, deps);
  const { mac, ips } = findMissing(wanted, result, actualMac);
  if (ips !== undefined) throw new AppError("CNI_REQUEST_NOT_MET", { what: ips });
  if (mac === undefined || (await findVmiOf(facts.pod, deps)) !== undefined) return;
  throw new AppError("CNI_REQUEST_NOT_MET", { what: mac });
}

/** Reads the MAC from the NIC if a MAC was requested but the result has none. Results before CNI 0.3.0 have no MAC. */
async function readActualMac(
  wanted: WantedAttachment,
  { facts, result }: { readonly facts: PodFacts; readonly result: CniResult },
  deps: Deps,
): Promise<string | undefined> {
  const { network, interfaceName, selection } = wanted;
  const isReported = findNetworkStatus(result, network, interfaceName).mac !== undefined;
  if (selection.mac === undefined || isReported) return undefined;
  const links = await listLinks(facts, deps);
  return links.find((link) => link.name === interfaceName)?.mac;
}
