// SPDX-License-Identifier: Apache-2.0
// Attaches one network in a pod's sandbox: intent on disk, CNI ADD, and a check of the result.
import { names, normalizeMac, parseNetworkStatus } from "@patchbay/api";
import { buildNetworkStatuses, findNetworkStatus, type JournalRow } from "@patchbay/cni";
import { AppError, isAppError, messageOf } from "@patchbay/base";
import type { ForeignAttachment, WantedAttachment } from "@patchbay/core/nics";
import type { AttachmentRequest, CniResult, Link } from "@patchbay/core/interfaces";
import type { Deps } from "../../../deps.ts";
import {
  readPreferredAddresses,
  mayBeRejection,
  type PreferredAddresses,
} from "./preferred-addresses.ts";
import { addOrUndo, beginAttachment } from "./add.ts";
import { adopt } from "./adopt.ts";
import { readDefinition } from "./definition.ts";
import { assertMayRoute, buildInitialClaim } from "./default-route.ts";
import { addDevice } from "./device.ts";
import { assertMayUse, findVmiOf } from "../launcher.ts";
import { assertAllowed } from "./policy.ts";
import type { PodFacts } from "../observe.ts";
import { reportLostAddresses, reportAttached } from "../events.ts";
import { listLinks, requireSandbox } from "./netns.ts";
import { findMissing, buildRequest } from "./request.ts";

/** @throws AppError of the plugins, the request and the sandbox */
export async function attach(wanted: WantedAttachment, facts: PodFacts, deps: Deps): Promise<void> {
  const sandbox = requireSandbox(facts);
  await assertMayUse(wanted.network, facts, deps);
  await assertMayRoute(wanted, facts, deps);
  const request = await buildRequest(wanted, { facts, sandbox }, deps);
  await assertAllowed(wanted.network, request.config, deps);
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
  const preferred = readPreferredAddresses(wanted.selection, withDevice.request);
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

/** Prefers a problem of the definition, because plugins say little about a missing link or kernel module. */
async function explainFailure(error: unknown, network: string, deps: Deps): Promise<unknown> {
  if (!isAppError(error, "CNI_PLUGIN_FAILED")) return error;
  const problems = await deps.findProblems(network).catch(() => []); // only the plugin's error is known
  // A policy warning is not why the plugin failed.
  return problems.find(({ code }) => code !== "CNI_DEFINITION_TOLERATED") ?? error;
}

type Intent = Parameters<typeof beginAttachment>[1];

interface Added {
  readonly row: JournalRow;
  readonly result: CniResult;
  readonly rejection?: string;
}

async function addNew(wanted: WantedAttachment, intent: Intent, deps: Deps): Promise<Added> {
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

/** Requests the previous addresses if the network supports that. If it rejects them, accepts new ones. */
async function addWithPreferred(
  wanted: WantedAttachment,
  { preferred, ...intent }: Intent & { readonly preferred: PreferredAddresses | undefined },
  deps: Deps,
): Promise<Added> {
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

/** A plugin that makes no interface leaves no trace in pod and status. A second ADD would fail. Source: CNI SPEC 1.1 section 2, "ADD". */
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

/** In a new sandbox the runtime attaches the annotation's networks again, and its status entry tells so. */
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
    (entry) =>
      entry.name === network &&
      entry.default !== true &&
      entry.interface === interfaceName &&
      normalizeMac(entry.mac ?? "") === normalizeMac(existing.mac),
  );
  const isAttached =
    isReported || (await isCached({ network, interfaceName }, { facts, existing }, deps));
  // A DEL would destroy an attachment of another owner.
  if (!isAttached) throw new AppError("CNI_NAME_TAKEN", { interface: interfaceName });
  await adopt({ network, interfaceName }, facts, deps);
}

/** Whether libcni's cache has this NIC for this network. The runtime's status entry may have been overwritten. */
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
 * Checks that the result has the requested addresses and MAC. A launcher's MAC is exempt: it is the guest's, and if a plugin cannot
 * set it (ptp, host-device), virt-handler's wiring does.
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

/** Reads the MAC from the NIC if one was requested and the result has none, as before version 0.3.0. */
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
