// SPDX-License-Identifier: Apache-2.0
// Asks the guest's agent for its names of the NICs, when something has changed that it may have named.
import {
  domainNameOf,
  guestNamesByMac,
  isAppError,
  messageOf,
  type NodeVmFacts,
} from "@patchbay/core";
import { keyOf, printKey } from "@patchbay/kube";
import type { Deps } from "../../deps.ts";
import type { Session } from "../../sessions.ts";

/** The NICs that an agent could name; empty while no agent listens. */
function listenersOf({ domain, ifaces }: NodeVmFacts): string {
  if (domain?.running !== true || !domain.facts.agentConnected) return "";
  return ifaces.flatMap(({ device }) => device?.mac ?? []).join(" ");
}

async function namesFrom(
  { vmi }: NodeVmFacts,
  { connection }: Session,
  deps: Deps,
): Promise<ReadonlyMap<string, string> | undefined> {
  try {
    return guestNamesByMac(await connection.readGuestInterfaces(domainNameOf(vmi)));
  } catch (error) {
    if (isAppError(error, "LIBVIRT_CONNECTION_LOST")) throw error;
    // A guest that does not answer is no fault: its names stay as they were.
    const reason = messageOf(error);
    deps.log.debug("the guest's agent gave no names", { vmi: printKey(keyOf(vmi)), reason });
    return undefined;
  }
}

/**
 * Asks if it is time to; a guest that takes long delays nobody but itself. Milliseconds until there is something to do
 * again, 0 when there are new names to report; undefined: not before something changes.
 */
export async function askNames(
  facts: NodeVmFacts,
  session: Session,
  deps: Deps,
): Promise<number | undefined> {
  const uid = facts.vmi.metadata.uid ?? "";
  const listeners = listenersOf(facts);
  const dueInMs = deps.guestNames.askInMs(uid, listeners);
  if (dueInMs !== 0) return dueInMs;
  const isNew = deps.guestNames.note(uid, await namesFrom(facts, session, deps));
  return isNew ? 0 : deps.guestNames.askInMs(uid, listeners);
}
