// SPDX-License-Identifier: Apache-2.0
// Makes the networks of a pod whose sandbox is just being made: the default network, then those of its annotation. All of
// them, or none and an error, with which the kubelet makes the pod another sandbox.
import type { PluginCall } from "@patchbay/cni";
import { AppError, messageOf, planAttachmentActions } from "@patchbay/core";
import type { CniResult } from "@patchbay/core/ports";
import { createFailures } from "../failures.ts";
import { act, type ActResult } from "../reconcilers/pod/act.ts";
import {
  attachDefault,
  type DefaultNetwork,
} from "../reconcilers/pod/attachment/attach-default.ts";
import type { PodFacts } from "../reconcilers/pod/observe.ts";
import { report } from "../reconcilers/pod/report.ts";
import type { RuntimeDeps } from "./deps.ts";
import { factsOf } from "./facts.ts";
import { defaultNetworkOf } from "./pod-default.ts";
import { releaseRows, releaseSandbox, settle } from "./release.ts";

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
