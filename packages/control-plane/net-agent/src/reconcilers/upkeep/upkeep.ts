// SPDX-License-Identifier: Apache-2.0
// Hourly checks of networks and attachments with CNI STATUS, GC and CHECK. Findings are reported and change nothing.
import { isAppError } from "@patchbay/base";
import type { Deps } from "../../deps.ts";
import { listRequestedNetworks } from "../../wake.ts";
import { type Finding, reportChanges } from "./finding.ts";
import { type UsableNetwork, listNetworks } from "./networks.ts";
import { checkAttachments } from "./attachments.ts";
import { collectUnused } from "./collect.ts";
import { after, createQueue, runReconciler, type Next } from "@patchbay/kube";

/** Runs STATUS for requested networks, only to report failures. ADD fails itself if its network is not ready. */
async function checkStatus(
  networks: readonly UsableNetwork[],
  deps: Deps,
): Promise<readonly Finding[]> {
  const requested = new Set(deps.pods.list().flatMap(listRequestedNetworks));
  const found: Finding[] = [];
  for (const { name, definition, config } of networks) {
    if (definition !== undefined && !requested.has(name)) continue;
    try {
      await deps.cni.status(config);
    } catch (error) {
      if (!isAppError(error)) throw error;
      found.push({
        key: `status ${name}`,
        about: "status",
        error,
        ...(definition && { object: definition }),
        reason: "NetworkNotReady",
        subject: "this node cannot attach it now",
        resolved: { reason: "NetworkReady", message: "this node can attach it again" },
      });
    }
  }
  return found;
}

/** Returns a function that runs one round, and compares its findings with those of the previous round. */
export function createUpkeep(deps: Deps): () => Promise<void> {
  let reported: ReadonlyMap<string, Finding> = new Map();
  return async () => {
    const networks = await listNetworks(deps);
    const found = [
      ...(await checkStatus(networks, deps)),
      ...(await collectUnused(networks, deps)),
      ...(await checkAttachments(deps)),
    ];
    const now = new Map(found.map((finding) => [finding.key, finding]));
    reportChanges(reported, now, deps);
    reported = now;
  };
}

const ALL = "*";
const UPKEEP_INTERVAL_MS = 3_600_000;

export async function runUpkeepLoop(deps: Deps, signal: AbortSignal): Promise<void> {
  const { clock, log } = deps;
  const queue = createQueue({ clock });
  const upkeep = createUpkeep(deps);
  queue.add(ALL);
  const reconcile = async (): Promise<Next> => {
    await upkeep();
    return after(UPKEEP_INTERVAL_MS);
  };
  await runReconciler({ name: "upkeep", queue, reconcile, log, clock }, signal);
}
