// SPDX-License-Identifier: Apache-2.0
// Asks the guest's agent what it calls its NICs, which addresses they have, and which system it is: soon after something has changed that it may
// have words for, and now and then while it listens.
import { domainNameOf, isAppError, messageOf, type NodeVmFacts } from "@patchbay/core";
import { keyOf, printKey } from "@patchbay/kube";
import type { GuestInterface, GuestSystem } from "@patchbay/core/ports";
import type { Deps } from "../../deps.ts";
import type { Session } from "../../sessions/sessions.ts";

function macsOf({ ifaces }: NodeVmFacts): readonly string[] {
  return ifaces.flatMap(({ device }) => device?.mac ?? []);
}

/** Each NIC on its network: a guest that is moved to another one gets other addresses there. */
function placesOf({ ifaces }: NodeVmFacts): readonly string[] {
  return ifaces.flatMap(({ device, podInterfaceName }) =>
    device === undefined ? [] : [`${device.mac}@${podInterfaceName}`],
  );
}

/** The NICs that an agent could tell of, where they are; empty while no agent listens. */
function listenersOf(facts: NodeVmFacts): string {
  const { domain } = facts;
  const isListening = domain?.running === true && domain.facts.agentConnected;
  return isListening ? placesOf(facts).join(" ") : "";
}

async function linksFrom(
  { vmi }: NodeVmFacts,
  { connection }: Session,
  deps: Deps,
): Promise<{ readonly links: readonly GuestInterface[] | undefined; readonly isTimeout?: true }> {
  try {
    return { links: await connection.readGuestInterfaces(domainNameOf(vmi)) };
  } catch (error) {
    if (isAppError(error, "LIBVIRT_CONNECTION_LOST")) throw error;
    // A guest that does not answer is no fault: what is known of it stays.
    const reason = messageOf(error);
    deps.log.debug("the guest's agent gave no answer", { vmi: printKey(keyOf(vmi)), reason });
    const isTimeout = isAppError(error, "LIBVIRT_AGENT_UNAVAILABLE");
    return { links: undefined, ...(isTimeout && { isTimeout }) };
  }
}

/** The first of two moments, milliseconds from now. */
function earlier(left: number | undefined, right: number | undefined): number | undefined {
  if (left === undefined || right === undefined) return left ?? right;
  return Math.min(left, right);
}

/** Asked once for each time that an agent comes; one that does not know the question is not asked again. */
async function systemFrom(
  { vmi }: NodeVmFacts,
  { connection }: Session,
  deps: Deps,
): Promise<GuestSystem | undefined> {
  if (deps.guests.systemOf(vmi.metadata.uid ?? "") !== undefined) return undefined;
  try {
    return await connection.readGuestSystem(domainNameOf(vmi));
  } catch (error) {
    if (isAppError(error, "LIBVIRT_CONNECTION_LOST")) throw error;
    return isAppError(error, "LIBVIRT_AGENT_UNAVAILABLE") ? undefined : {};
  }
}

/**
 * Asks if it is time to; a guest that takes long delays nobody but itself. Milliseconds until there is something to do
 * again, 0 when there is something to report; undefined: not before something changes.
 */
export async function askGuest(
  facts: NodeVmFacts,
  session: Session,
  deps: Deps,
): Promise<number | undefined> {
  const { vmi } = facts;
  const uid = vmi.metadata.uid ?? "";
  const listeners = listenersOf(facts);
  const dueInMs = deps.guests.askInMs(uid, listeners);
  if (dueInMs !== 0) return earlier(dueInMs, deps.guests.tellSilenceInMs(uid));
  const answer = await linksFrom(facts, session, deps);
  const system = answer.links === undefined ? undefined : await systemFrom(facts, session, deps);
  const isNew = deps.guests.note(vmi, { ...answer, macs: macsOf(facts), system });
  return isNew ? 0 : deps.guests.askInMs(uid, listeners);
}
