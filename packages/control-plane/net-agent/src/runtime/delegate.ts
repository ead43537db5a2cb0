// SPDX-License-Identifier: Apache-2.0
// Serves calls of Multus' dynamic networks controller. Source: Multus pkg/server, "delegate".
import {
  CNI_CODES,
  parseNetworkConfig,
  type CalledPod,
  type JournalRow,
  type PluginCall,
} from "@patchbay/cni";
import { AppError } from "@patchbay/base";
import { planAttachmentActions } from "@patchbay/core/nics";
import { parseKey } from "@patchbay/kube";
import type { AttachmentRequest, CniResult } from "@patchbay/core/interfaces";
import { createFailures } from "../failures.ts";
import { act } from "../reconcilers/pod/index.ts";
import { findVmiOf } from "../reconcilers/pod/observe.ts";
import { withoutForgedInput } from "../reconcilers/pod/attachment/definition.ts";
import { assertAllowed } from "../reconcilers/pod/attachment/policy.ts";
import { interfaceNameOf } from "../reconcilers/pod/step.ts";
import { checkAttachment } from "../reconcilers/upkeep/attachments.ts";
import type { RuntimeDeps } from "./deps.ts";
import { readFacts, listRows } from "./facts.ts";
import { releaseRows, forgetRemoved } from "./release.ts";

function reject(reason: string): never {
  throw new AppError("CNI_CALL_INVALID", { reason, cniCode: CNI_CODES.badConfig });
}

/** Accepts calls only in mode multus-dynamic. In other modes, net-agent attaches the annotation's networks itself. */
function assertEnabled(deps: RuntimeDeps): void {
  if (deps.mode === "multus-dynamic") return;
  reject(
    "net-agent itself attaches the networks of annotations; remove the dynamic networks controller, or start net-agent with --mode=multus-dynamic",
  );
}

async function findRow(
  { containerId, interfaceName, pod }: PluginCall,
  deps: RuntimeDeps,
): Promise<JournalRow | undefined> {
  const rows = await listRows({ uid: pod?.uid ?? "", containerId }, deps);
  return rows.find(
    ({ request, state }) => request.interfaceName === interfaceName && state !== "removed",
  );
}

/** Attaches the network with its definition's configuration. Ignores the call's configuration, which Multus' controller does not check. */
async function add(call: PluginCall, deps: RuntimeDeps): Promise<CniResult> {
  const { interfaceName } = call;
  const facts = await readFacts(call, deps, "live");
  const plan = planAttachmentActions(facts.attachments);
  const steps = plan.filter((step) => interfaceNameOf(step) === interfaceName);
  const isRequested = steps.some(({ kind }) => kind === "add");
  if (!isRequested) {
    reject(`the annotation of pod ${facts.key} requests no new ${interfaceName}`);
  }
  const failures = createFailures(deps.clock);
  const { errors } = await act(steps, facts, { ...deps, failures });
  const row = await findRow(call, deps);
  if (row?.result !== undefined && errors.size === 0) return row.result;
  const reasons = [...errors.values()].map(({ message }) => message).join("; ");
  throw new AppError("CNI_POD_NOT_ATTACHED", { pod: facts.key, reasons });
}

function buildRemoval(call: PluginCall): AttachmentRequest {
  const parsed = parseNetworkConfig(JSON.stringify(call.config), "");
  if (!parsed.ok) {
    reject(parsed.causes.map(({ field, message }) => `${field} ${message}`).join(", "));
  }
  const { containerId, interfaceName, netnsPath, args } = call;
  return {
    containerId,
    interfaceName,
    args,
    config: parsed.config,
    capabilityArgs: {},
    ...(netnsPath === undefined ? {} : { netnsPath }),
  };
}

/**
 * Detaches a network that has no journal row. Uses the configuration that the runtime cached, or else the call's configuration. The latter
 * may be forged, so it is first checked against the policy.
 */
async function removeForeign(
  call: PluginCall,
  { namespace }: CalledPod,
  deps: RuntimeDeps,
): Promise<void> {
  const { containerId, interfaceName } = call;
  const fromCall = buildRemoval(call);
  for (const cache of [deps.resultCache, deps.multusCache]) {
    const cached = await cache.find(containerId, interfaceName);
    if (cached === undefined) continue;
    const { result, ...settings } = cached;
    await deps.cni.del({ ...fromCall, ...settings }, result);
    return;
  }
  const network = `${namespace}/${fromCall.config.name}`;
  const config = withoutForgedInput(network, fromCall.config, deps);
  await assertAllowed({ network, config }, deps);
  await deps.cni.del({ ...fromCall, config });
}

async function remove(call: PluginCall, pod: CalledPod, deps: RuntimeDeps): Promise<void> {
  const row = await findRow(call, deps);
  if (row === undefined) {
    await removeForeign(call, pod, deps);
    return;
  }
  await releaseRows([row], deps);
  await forgetRemoved(row, deps);
}

async function check(call: PluginCall, deps: RuntimeDeps): Promise<void> {
  const row = await findRow(call, deps);
  if (row?.state !== "attached") return reject(`${call.interfaceName} is not attached`);
  const pod = deps.pods.find(parseKey(`${row.podNamespace}/${row.podName}`));
  if ((await findVmiOf(pod, deps)) === undefined) await checkAttachment(row, deps);
}

/** @throws AppError with CNI_CALL_INVALID, CNI_POD_UNKNOWN, CNI_POD_NOT_ATTACHED, and the errors of plugins */
export async function delegate(
  call: PluginCall,
  deps: RuntimeDeps,
): Promise<CniResult | undefined> {
  assertEnabled(deps);
  const { pod } = call;
  if (pod === undefined) return reject("CNI_ARGS name no pod");
  return deps.podMutex.runExclusive(pod.uid, async () => {
    switch (call.command) {
      case "ADD":
        return add(call, deps);
      case "DEL":
        await remove(call, pod, deps);
        return undefined;
      case "CHECK":
        await check(call, deps);
        return undefined;
      case "GC":
      case "STATUS":
        return reject(`${call.command} is not for one network`);
    }
  });
}
