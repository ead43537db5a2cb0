// SPDX-License-Identifier: Apache-2.0
// Attaches the networks of a new sandbox. If one fails, detaches all; the kubelet then creates another sandbox.
import { AppError, messageOf } from "@patchbay/base";
import {
  findPodNetworkMac,
  type WantedAttachment,
  planAttachmentActions,
} from "@patchbay/core/nics";
import type { CniResult, AttachmentRequest } from "@patchbay/core/interfaces";
import type { Reason } from "@patchbay/core/reasons";
import type { Deps } from "../deps.ts";
import { type PodFacts, assertMayUse, findVmiOf } from "../reconcilers/pod/observe.ts";
import {
  addOrUndo,
  beginAttachment,
  assertRequestMet,
  buildRequest,
} from "../reconcilers/pod/attachment/attach.ts";
import { listLinks, requireSandbox } from "../reconcilers/pod/attachment/netns.ts";
import { type RequestWithDevice, addDevice } from "../reconcilers/pod/attachment/device.ts";
import { mayBeRejection, withRequestedMac } from "../reconcilers/pod/attachment/preferences.ts";
import { names } from "@patchbay/api";
import { parseNetworks, type NetworkSelection } from "@patchbay/api/annotations";
import type { PluginCall } from "@patchbay/cni";
import {
  assertAllowed,
  assertNotOwnPlugin,
  assertPodAddressesAllowed,
} from "../reconcilers/pod/attachment/policy.ts";
import type { RuntimeDeps } from "./deps.ts";
import { createFailures } from "../failures.ts";
import { act } from "../reconcilers/pod/index.ts";
import { report, type ActResult } from "../reconcilers/pod/report.ts";
import { readFacts } from "./facts.ts";
import { releaseRows, releaseSandbox, forgetRemoved } from "./release.ts";

interface DefaultNetwork extends RequestWithDevice {
  /** Name of the network in the pod's status. */
  readonly network: string;
  readonly check?: (result: CniResult) => Promise<void>;
}

/** Attaches the default network. @throws AppError with CNI_NAME_TAKEN, or an error of {@link listLinks} or of a plugin */
async function attachDefault(
  { network, check, ...requestWithDevice }: DefaultNetwork,
  facts: PodFacts,
  deps: Deps,
): Promise<CniResult> {
  const { interfaceName } = requestWithDevice.request;
  const links = await listLinks(facts, deps);
  if (links.some(({ name }) => name === interfaceName)) {
    throw new AppError("CNI_NAME_TAKEN", { interface: interfaceName });
  }
  const startMs = deps.clock.monotonicMs();
  const options = {
    facts,
    sandbox: requireSandbox(facts),
    ...requestWithDevice,
    isDefault: true,
  } as const;
  const begunRow = await beginAttachment({ network }, options, deps);
  const { row, result } = await addOrUndo(begunRow, { facts, ...(check && { check }) }, deps);
  await deps.journal.write({ ...row, state: "attached", result });
  const durationMs = Math.round(deps.clock.monotonicMs() - startMs);
  deps.log.info("attached default network", {
    pod: facts.key,
    network,
    link: interfaceName,
    durationMs,
  });
  return result;
}

/** Namespace of a pod's own default network if the pod's annotation contains no namespace. Source: Multus, multusNamespace. */
const DEFAULT_DEFINITION_NAMESPACE = "kube-system";
const IGNORE_UNKNOWN = "IgnoreUnknown";

/** Makes plugins ignore unknown arguments instead of failing. Source: CNI pkg/types, CommonArgs. */
function withIgnoreUnknown({ args }: PluginCall): AttachmentRequest["args"] {
  return args.some(([key]) => key === IGNORE_UNKNOWN) ? args : [[IGNORE_UNKNOWN, "1"], ...args];
}

async function readClusterDefault(
  { interfaceName, ...call }: PluginCall,
  facts: PodFacts,
  deps: RuntimeDeps,
): Promise<DefaultNetwork> {
  const config = await deps.readDefaultNetwork();
  const network = config.name;
  assertNotOwnPlugin(network, config);
  const { id: containerId, netnsPath } = requireSandbox(facts);
  return {
    network,
    request: {
      containerId,
      netnsPath,
      interfaceName,
      config,
      args: withIgnoreUnknown({ interfaceName, ...call }),
      capabilityArgs: call.runtimeConfig,
    },
  };
}

function reject({ key: pod }: PodFacts, reason: string): never {
  const annotation = names.DEFAULT_NETWORK_ANNOTATION;
  throw new AppError("CNI_OWN_DEFAULT_INVALID", { annotation, pod, reason });
}

function parseElement(text: string, facts: PodFacts): NetworkSelection {
  const parsed = parseNetworks(text);
  if (!parsed.ok) return reject(facts, parsed.reason);
  const [element, ...others] = parsed.elements;
  if (element === undefined) return reject(facts, "it names no network");
  if (others.length > 0) return reject(facts, "it names more than one network");
  return element;
}

/**
 * Converts the only element of the default-network annotation to the wanted attachment. Rejects an element that names another interface
 * than the container runtime requested.
 */
function toWanted(
  element: NetworkSelection,
  { interfaceName }: PluginCall,
  facts: PodFacts,
): WantedAttachment {
  const { name, namespace = "", interface: requested = "", "default-route": route } = element;
  if (requested !== "" && requested !== interfaceName) {
    reject(
      facts,
      `interface ${requested} must be ${interfaceName}, which the container runtime requested`,
    );
  }
  if (route !== undefined) {
    reject(facts, "default-route is only for secondary networks");
  }
  const network = `${namespace === "" ? DEFAULT_DEFINITION_NAMESPACE : namespace}/${name}`;
  return { network, interfaceName, selection: element };
}

/** Returns the default network that the annotation names. Arguments from the annotation override arguments of the runtime's call. */
async function readNamedNetwork(
  text: string,
  { call, facts }: { readonly call: PluginCall; readonly facts: PodFacts },
  deps: RuntimeDeps,
): Promise<DefaultNetwork> {
  const wanted = toWanted(parseElement(text, facts), call, facts);
  const { network } = wanted;
  const sandbox = requireSandbox(facts);
  if (!network.startsWith(`${DEFAULT_DEFINITION_NAMESPACE}/`))
    await assertMayUse(network, facts, deps);
  const annotationRequest = await buildRequest(wanted, { facts, sandbox }, deps);
  const { namespace } = facts.attachments;
  const pod = { namespace, selection: wanted.selection, isDefault: true } as const;
  const use = { network, config: annotationRequest.config, pod };
  await assertAllowed(use, deps);
  const capabilityArgs = { ...call.runtimeConfig, ...annotationRequest.capabilityArgs };
  const overridden = new Set(annotationRequest.args.map(([key]) => key));
  const args = [...annotationRequest.args, ...call.args.filter(([key]) => !overridden.has(key))];
  const request = { ...annotationRequest, args, capabilityArgs };
  const requestWithDevice = await addDevice(wanted, { facts, sandbox, request }, deps);
  return {
    network,
    ...requestWithDevice,
    check: async (result) => {
      await assertRequestMet(wanted, { facts, result }, deps);
      await assertPodAddressesAllowed(use, result, deps);
    },
  };
}

/**
 * Returns the network of a new sandbox's eth0. The pod's annotation takes precedence over the cluster's default.
 * @throws AppError with CNI_DEFAULT_NETWORK_MISSING, CNI_OWN_DEFAULT_INVALID, CNI_PLUGIN_CALLS_ITSELF
 */
function resolveDefaultNetwork(
  call: PluginCall,
  facts: PodFacts,
  deps: RuntimeDeps,
): Promise<DefaultNetwork> {
  const text = facts.pod?.metadata.annotations?.[names.DEFAULT_NETWORK_ANNOTATION];
  return text === undefined
    ? readClusterDefault(call, facts, deps)
    : readNamedNetwork(text, { call, facts }, deps);
}

/** Detaches the networks of the pod's former sandboxes, because the runtime sends no DEL for a sandbox that it lost in a crash. */
async function releaseFormer({ key, uid, sandbox }: PodFacts, deps: RuntimeDeps): Promise<void> {
  const rows = await deps.journal.list(uid);
  const former = rows.filter(({ request }) => request.containerId !== sandbox?.id);
  try {
    await releaseRows(former, deps);
  } catch (error) {
    // A failure must not block the new sandbox. A later pass retries the release.
    const reason = messageOf(error);
    deps.log.warn("failed to detach the networks of a former sandbox", { pod: key, reason });
  }
}

/** Attaches the annotation's networks. Ignores the backoff of failures in earlier sandboxes. */
async function attachAnnotated(facts: PodFacts, deps: RuntimeDeps): Promise<ActResult> {
  const plan = planAttachmentActions(facts.attachments);
  return act(plan, facts, { ...deps, failures: createFailures(deps.clock) });
}

const NO_ADDRESS: Reason = "AddressesExhausted";

/**
 * Throws if a network could not be attached. For a VM of Patchbay, accepts that networks have no free address: the VM starts without their
 * NICs, and net-agent attaches them in a later reconcile pass.
 */
async function assertAllAttached(
  { key, pod, attachments }: PodFacts,
  { errors }: ActResult,
  deps: RuntimeDeps,
): Promise<void> {
  if (errors.size === 0) return;
  const mayLack =
    [...errors.values()].every(({ reason }) => reason === NO_ADDRESS) &&
    attachments.isKubeVirtLauncher !== true &&
    (await findVmiOf(pod, deps)) !== undefined;
  if (mayLack) return;
  const reasons = [...errors].map(([nic, { message }]) =>
    nic === "" ? message : `${nic}: ${message}`,
  );
  throw new AppError("CNI_POD_NOT_ATTACHED", { pod: key, reasons: reasons.join("; ") });
}

/** Releases the sandbox, and then writes the errors to the pod's status. Logs a failed release or write instead of throwing. */
async function undoAll(
  facts: PodFacts,
  actResult: ActResult | undefined,
  deps: RuntimeDeps,
): Promise<void> {
  const { key, uid, sandbox } = facts;
  try {
    await releaseSandbox({ uid, containerId: sandbox?.id ?? "" }, deps);
    if (actResult !== undefined) await report(facts, actResult, deps);
  } catch (error) {
    // The journal retains rows that were not released. The runtime's DEL or the next ADD releases them.
    const reason = messageOf(error);
    deps.log.warn("failed to undo the networks of a new pod", { pod: key, reason });
  }
}

/**
 * Attaches the default network. If the runtime requests no MAC for a launcher, requests the guest's MAC. If the network rejects that MAC,
 * attaches the network without a requested MAC.
 */
async function addPreferringMac(
  network: DefaultNetwork,
  facts: PodFacts,
  deps: RuntimeDeps,
): Promise<CniResult> {
  const isRequested = network.request.args.some(([key]) => key === "MAC");
  const vmi = isRequested ? undefined : await findVmiOf(facts.pod, deps);
  const mac = vmi && findPodNetworkMac(vmi);
  if (mac === undefined) return addDefault(network, facts, deps);
  const request = withRequestedMac(network.request, mac);
  try {
    return await addDefault({ ...network, request }, facts, deps);
  } catch (error) {
    if (!mayBeRejection(error)) throw error;
    deps.log.info("the default network rejected the guest's previous MAC", {
      pod: facts.key,
      mac,
      err: messageOf(error),
    });
    return addDefault(network, facts, deps);
  }
}

/** Attaches the default network. If that fails and the attachment has been undone, deletes its journal row. */
async function addDefault(
  network: DefaultNetwork,
  facts: PodFacts,
  deps: RuntimeDeps,
): Promise<CniResult> {
  try {
    return await attachDefault(network, facts, deps);
  } catch (error) {
    const [row] = await deps.journal.list(facts.uid);
    if (row !== undefined) await forgetRemoved(row, deps);
    throw error;
  }
}

async function attachAll(call: PluginCall, facts: PodFacts, deps: RuntimeDeps): Promise<CniResult> {
  // Resolves the default network first, so that nothing is attached if it cannot be resolved.
  const network = await resolveDefaultNetwork(call, facts, deps);
  await releaseFormer(facts, deps);
  const result = await addPreferringMac(network, facts, deps);
  let actResult: ActResult | undefined;
  try {
    actResult = await attachAnnotated(facts, deps);
    await assertAllAttached(facts, actResult, deps);
    await report(facts, actResult, deps);
    return result;
  } catch (error) {
    await undoAll(facts, actResult, deps);
    throw error;
  }
}

/** Replaces the namespace path in the result with the runtime's path. The agent's path of the same namespace may differ. */
function withRuntimePath(result: CniResult, call: PluginCall, facts: PodFacts): CniResult {
  const { netnsPath = "" } = call;
  if (result.interfaces === undefined) return result;
  const interfaces = result.interfaces.map((nic) =>
    nic.sandbox === facts.sandbox?.netnsPath ? { ...nic, sandbox: netnsPath } : nic,
  );
  return { ...result, interfaces };
}

/**
 * Attaches all networks of a new sandbox, writes them to the pod's status, and answers ADD with the result of the default network.
 * @throws AppError with CNI_CALL_INVALID, CNI_POD_UNKNOWN, CNI_DEFAULT_NETWORK_MISSING, CNI_OWN_DEFAULT_INVALID, CNI_POD_NOT_ATTACHED, and
 *   the errors of the default network's plugins
 */
export function addPod(call: PluginCall, deps: RuntimeDeps): Promise<CniResult> {
  return deps.podMutex.runExclusive(call.pod?.uid ?? "", async () => {
    const facts = await readFacts(call, deps);
    return withRuntimePath(await attachAll(call, facts, deps), call, facts);
  });
}
