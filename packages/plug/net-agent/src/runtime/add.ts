// SPDX-License-Identifier: Apache-2.0
// Makes the networks of a pod whose sandbox is just being made: the default network, then those of its annotation. All of
// them, or none and an error, with which the kubelet makes the pod another sandbox.
import { AppError, type WantedAttachment, messageOf, planAttachmentActions } from "@patchbay/core";
import type { CniResult, AttachmentRequest } from "@patchbay/core/ports";
import type { Deps } from "../deps.ts";
import type { PodFacts } from "../reconcilers/pod/observe.ts";
import { addOrUndo, begin } from "../reconcilers/pod/attachment/add.ts";
import { listLinks, sandboxOf } from "../reconcilers/pod/attachment/netns.ts";
import { type DeviceOfRequest, withDeviceOf } from "../reconcilers/pod/attachment/device.ts";
import { names, parseNetworks, type NetworkSelection } from "@patchbay/api";
import type { PluginCall } from "@patchbay/cni";
import { assertAskedIsGiven } from "../reconcilers/pod/attachment/attach.ts";
import { assertAllowed, assertNotOwn } from "../reconcilers/pod/attachment/policy.ts";
import { requestOf } from "../reconcilers/pod/attachment/request.ts";
import { assertMayUse } from "../reconcilers/pod/launcher.ts";
import type { RuntimeDeps } from "./deps.ts";
import { createFailures } from "../failures.ts";
import { act, type ActResult } from "../reconcilers/pod/act.ts";
import { report } from "../reconcilers/pod/report.ts";
import { factsOf } from "./facts.ts";
import { releaseRows, releaseSandbox, settle } from "./release.ts";

/** What is to be made. */
interface DefaultNetwork extends DeviceOfRequest {
  /** As the pod's status tells it. */
  readonly network: string;
  /** Throws where the result is not what was asked for. */
  readonly check?: (result: CniResult) => Promise<void>;
}

/**
 * Attaches it; its row is the recipe for the runtime's DEL.
 * @throws AppError with what plugins and the sandbox give cause to, CNI_NAME_TAKEN
 */
async function attachDefault(
  { network, check, ...given }: DefaultNetwork,
  facts: PodFacts,
  deps: Deps,
): Promise<CniResult> {
  const { interfaceName } = given.request;
  const links = await listLinks(facts, deps);
  if (links.some(({ name }) => name === interfaceName)) {
    throw new AppError("CNI_NAME_TAKEN", { interface: interfaceName });
  }
  const startMs = deps.clock.monotonicMs();
  const what = { facts, sandbox: sandboxOf(facts), ...given, isDefault: true } as const;
  const begun = await begin({ network }, what, deps);
  const { row, result } = await addOrUndo(begun, { facts, ...(check && { check }) }, deps);
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

/** Where definitions of default networks are unless another namespace is named: an administrator's. Source: Multus multusNamespace. */
const NAMESPACE = "kube-system";
const IGNORE_UNKNOWN = "IgnoreUnknown";

/** Plugins fail on arguments that they do not know, unless they are told not to. Source: CNI pkg/types, CommonArgs. */
function argsOf({ args }: PluginCall): AttachmentRequest["args"] {
  return args.some(([key]) => key === IGNORE_UNKNOWN) ? args : [[IGNORE_UNKNOWN, "1"], ...args];
}

async function everyPods(
  { interfaceName, ...call }: PluginCall,
  facts: PodFacts,
  deps: RuntimeDeps,
): Promise<DefaultNetwork> {
  const config = await deps.readDefaultNetwork();
  const network = config.name;
  assertNotOwn(network, config);
  const { id: containerId, netnsPath } = sandboxOf(facts);
  return {
    network,
    request: {
      containerId,
      netnsPath,
      interfaceName,
      config,
      args: argsOf({ interfaceName, ...call }),
      capabilityArgs: call.runtimeConfig,
    },
  };
}

function refuse({ key: pod }: PodFacts, reason: string): never {
  const annotation = names.DEFAULT_NETWORK_ANNOTATION;
  throw new AppError("CNI_OWN_DEFAULT_INVALID", { annotation, pod, reason });
}

/** The one element of the annotation. */
function elementOf(text: string, facts: PodFacts): NetworkSelection {
  const parsed = parseNetworks(text);
  if (!parsed.ok) return refuse(facts, parsed.reason);
  const [element, ...others] = parsed.elements;
  if (element === undefined) return refuse(facts, "it names no network");
  if (others.length > 0) return refuse(facts, "it names more than one network");
  return element;
}

/** A runtime looks for the NIC that it asked for, and takes the sandbox away where that is not there. */
function wantedOf(
  element: NetworkSelection,
  { interfaceName }: PluginCall,
  facts: PodFacts,
): WantedAttachment {
  const { name, namespace = "", interface: asked = "", "default-route": route } = element;
  if (asked !== "" && asked !== interfaceName) {
    refuse(
      facts,
      `interface ${asked} is not ${interfaceName}, by which the container runtime finds it`,
    );
  }
  if (route !== undefined) {
    refuse(facts, "default-route is for networks beside the default one, which has its own routes");
  }
  const network = `${namespace === "" ? NAMESPACE : namespace}/${name}`;
  return { network, interfaceName, selection: element };
}

/** With what the runtime gives along for every pod's; what the element asks for goes before. */
async function named(
  text: string,
  { call, facts }: { readonly call: PluginCall; readonly facts: PodFacts },
  deps: RuntimeDeps,
): Promise<DefaultNetwork> {
  const wanted = wantedOf(elementOf(text, facts), call, facts);
  const { network } = wanted;
  const sandbox = sandboxOf(facts);
  if (!network.startsWith(`${NAMESPACE}/`)) await assertMayUse(network, facts, deps);
  const asked = await requestOf(wanted, { facts, sandbox }, deps);
  await assertAllowed(network, asked.config, deps);
  const capabilityArgs = { ...call.runtimeConfig, ...asked.capabilityArgs };
  const own = new Set(asked.args.map(([key]) => key));
  const args = [...asked.args, ...call.args.filter(([key]) => !own.has(key))];
  const request = { ...asked, args, capabilityArgs };
  const given = await withDeviceOf(wanted, { facts, sandbox, request }, deps);
  return {
    network,
    ...given,
    check: (result) => assertAskedIsGiven(wanted, { facts, result }, deps),
  };
}

/**
 * The default network of a sandbox that is just being made.
 * @throws AppError with CNI_DEFAULT_NETWORK_MISSING, CNI_OWN_DEFAULT_INVALID, CNI_PLUGIN_CALLS_ITSELF, and with what an
 * attachment that an annotation asks for gives cause to
 */
function defaultNetworkOf(
  call: PluginCall,
  facts: PodFacts,
  deps: RuntimeDeps,
): Promise<DefaultNetwork> {
  const text = facts.pod?.metadata.annotations?.[names.DEFAULT_NETWORK_ANNOTATION];
  return text === undefined ? everyPods(call, facts, deps) : named(text, { call, facts }, deps);
}

/** What was made for former sandboxes of the pod, whose DEL never came: the runtime died before it knew of them. */
async function releaseFormer({ key, uid, sandbox }: PodFacts, deps: RuntimeDeps): Promise<void> {
  const rows = await deps.journal.list(uid);
  const former = rows.filter(({ request }) => request.containerId !== sandbox?.id);
  try {
    await releaseRows(former, deps);
  } catch (error) {
    // It is tried again, and must not keep the pod from its new sandbox.
    const reason = messageOf(error);
    deps.log.warn("networks of a former sandbox could not be removed", { pod: key, reason });
  }
}

/** The annotation's networks, as a pass makes them; what failed before, in another sandbox, holds nothing up. */
async function attachAsked(facts: PodFacts, deps: RuntimeDeps): Promise<ActResult> {
  const plan = planAttachmentActions(facts.attachments); // pure
  return act(plan, facts, { ...deps, failures: createFailures(deps.clock) });
}

function assertAll({ key }: PodFacts, { errors }: ActResult): void {
  if (errors.size === 0) return;
  const reasons = [...errors].map(([nic, { message }]) =>
    nic === "" ? message : `${nic}: ${message}`,
  );
  throw new AppError("CNI_POD_NOT_ATTACHED", { pod: key, reasons: reasons.join("; ") });
}

/** Leaves nothing of a sandbox that the runtime will throw away, and says why; the error is the runtime's to hear. */
async function undo(
  facts: PodFacts,
  outcome: ActResult | undefined,
  deps: RuntimeDeps,
): Promise<void> {
  const { key, uid, sandbox } = facts;
  try {
    await releaseSandbox({ uid, containerId: sandbox?.id ?? "" }, deps);
    if (outcome !== undefined) await report(facts, outcome, deps);
  } catch (error) {
    // The journal has what is left; the runtime's DEL and the next ADD go over it.
    const reason = messageOf(error);
    deps.log.warn("undoing the networks of a new pod failed", { pod: key, reason });
  }
}

/** What failed has been undone; no more than its own row is forgotten, since the name may be another attachment's. */
async function addDefault(
  network: DefaultNetwork,
  facts: PodFacts,
  deps: RuntimeDeps,
): Promise<CniResult> {
  try {
    return await attachDefault(network, facts, deps);
  } catch (error) {
    const [row] = await deps.journal.list(facts.uid);
    if (row !== undefined) await settle(row, deps);
    throw error;
  }
}

async function addTo(call: PluginCall, facts: PodFacts, deps: RuntimeDeps): Promise<CniResult> {
  // Before anything is made: without it nothing is.
  const network = await defaultNetworkOf(call, facts, deps);
  await releaseFormer(facts, deps);
  const result = await addDefault(network, facts, deps);
  let outcome: ActResult | undefined;
  try {
    outcome = await attachAsked(facts, deps);
    assertAll(facts, outcome);
    await report(facts, outcome, deps);
    return result;
  } catch (error) {
    await undo(facts, outcome, deps);
    throw error;
  }
}

/** Where the runtime put the sandbox, by the runtime's own path. */
function inItsWords(result: CniResult, call: PluginCall, facts: PodFacts): CniResult {
  const { netnsPath = "" } = call;
  if (result.interfaces === undefined) return result;
  const interfaces = result.interfaces.map((nic) =>
    nic.sandbox === facts.sandbox?.netnsPath ? { ...nic, sandbox: netnsPath } : nic,
  );
  return { ...result, interfaces };
}

/**
 * Answers ADD with the result of the default network; the pod's status tells all of them by then.
 * @throws AppError with CNI_CALL_INVALID, CNI_POD_UNKNOWN, CNI_DEFAULT_NETWORK_MISSING, CNI_OWN_DEFAULT_INVALID, CNI_POD_NOT_ATTACHED, and with
 * what the default network's plugins give cause to
 */
export function addPod(call: PluginCall, deps: RuntimeDeps): Promise<CniResult> {
  return deps.podMutex.runExclusive(call.pod?.uid ?? "", async () => {
    const facts = await factsOf(call, deps);
    return inItsWords(await addTo(call, facts, deps), call, facts);
  });
}
