// SPDX-License-Identifier: Apache-2.0
// Queries the guest agent for NIC names, addresses and the operating system, at intervals and soon after a relevant change.
import { domainNameOf, type NodeVmFacts } from "@patchbay/core/vm";
import { isAppError, messageOf } from "@patchbay/base";
import { keyOf, printKey } from "@patchbay/kube";
import type { GuestInterface, GuestSystem } from "@patchbay/core/interfaces";
import type { Deps } from "../../deps.ts";
import type { Session } from "../../sessions/sessions.ts";

function listMacs({ ifaces }: NodeVmFacts): readonly string[] {
  return ifaces.flatMap(({ device }) => device?.mac ?? []);
}

/** Returns each device's MAC and pod NIC. The pod NIC is included, because a swap changes it and the guest's addresses, but not the MAC. */
function describeNicNetworks({ ifaces }: NodeVmFacts): readonly string[] {
  return ifaces.flatMap(({ device, podInterfaceName }) =>
    device === undefined ? [] : [`${device.mac}@${podInterfaceName}`],
  );
}

/** Serializes the NICs that the guest agent can report. Returns an empty string if no agent is connected. */
function describeReportableNics(facts: NodeVmFacts): string {
  const { domain } = facts;
  const isListening = domain?.running === true && domain.facts.agentConnected;
  return isListening ? describeNicNetworks(facts).join(" ") : "";
}

async function readLinks(
  { vmi }: NodeVmFacts,
  { connection }: Session,
  deps: Deps,
): Promise<{ readonly links: readonly GuestInterface[] | undefined; readonly isTimeout?: true }> {
  try {
    return { links: await connection.readGuestInterfaces(domainNameOf(vmi)) };
  } catch (error) {
    if (isAppError(error, "LIBVIRT_CONNECTION_LOST")) throw error;
    // An error is only logged, because the previous answer stays in use.
    const reason = messageOf(error);
    deps.log.debug("the guest agent did not answer", { vmi: printKey(keyOf(vmi)), reason });
    const isTimeout = isAppError(error, "LIBVIRT_AGENT_UNAVAILABLE");
    return { links: undefined, ...(isTimeout && { isTimeout }) };
  }
}

function earliestOf(left: number | undefined, right: number | undefined): number | undefined {
  if (left === undefined || right === undefined) return left ?? right;
  return Math.min(left, right);
}

/**
 * Queries the agent for the guest's operating system. Returns undefined if it is already known or the agent is unavailable, and `{}` if the
 * query fails otherwise. Rethrows LIBVIRT_CONNECTION_LOST.
 */
async function readSystem(
  { vmi }: NodeVmFacts,
  { connection }: Session,
  deps: Deps,
): Promise<GuestSystem | undefined> {
  if (deps.guestAgents.findSystem(vmi.metadata.uid ?? "") !== undefined) return undefined;
  try {
    return await connection.readGuestSystem(domainNameOf(vmi));
  } catch (error) {
    if (isAppError(error, "LIBVIRT_CONNECTION_LOST")) throw error;
    return isAppError(error, "LIBVIRT_AGENT_UNAVAILABLE") ? undefined : {};
  }
}

/**
 * Queries the guest agent if a query is due. Returns the milliseconds until the next query or report, or undefined if the agent must be
 * queried only after an event, such as the agent's connection.
 */
export async function queryGuestAgent(
  facts: NodeVmFacts,
  session: Session,
  deps: Deps,
): Promise<number | undefined> {
  const { vmi } = facts;
  const uid = vmi.metadata.uid ?? "";
  const inputs = describeReportableNics(facts);
  const dueInMs = deps.guestAgents.queryDueInMs(uid, inputs);
  if (dueInMs !== 0) return earliestOf(dueInMs, deps.guestAgents.silenceReportDueInMs(uid));
  const answer = await readLinks(facts, session, deps);
  const system = answer.links === undefined ? undefined : await readSystem(facts, session, deps);
  const isNew = deps.guestAgents.recordAnswer(vmi, { ...answer, macs: listMacs(facts), system });
  return isNew ? 0 : deps.guestAgents.queryDueInMs(uid, inputs);
}
