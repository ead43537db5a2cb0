// SPDX-License-Identifier: Apache-2.0
// Runs CNI STATUS, GC and CHECK every hour, and reports failures.
import { isAppError } from "@patchbay/base";
import type { Deps } from "../../deps.ts";
import { listRequestedNetworks } from "../../wake.ts";
import { type Finding, reportChanges } from "./finding.ts";
import { type UsableNetwork, listNetworks } from "./networks.ts";
import { checkAttachments } from "./attachments.ts";
import { collectUnused } from "./collect.ts";
import { after, createQueue, runReconciler, type Next } from "@patchbay/kube";

async function checkStatus(
  networks: readonly UsableNetwork[],
  deps: Deps,
): Promise<readonly Finding[]> {
  const requested = new Set(deps.pods.list().flatMap(listRequestedNetworks));
  const findings: Finding[] = [];
  for (const { name, definition, config } of networks) {
    if (definition !== undefined && !requested.has(name)) continue;
    try {
      await deps.cni.status(config);
    } catch (error) {
      if (!isAppError(error)) throw error;
      findings.push({
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
  return findings;
}

/** Returns a function that runs all checks once. Each run reports problems that appeared, changed or ended after the previous run. */
export function createUpkeep(deps: Deps): () => Promise<void> {
  let previous: ReadonlyMap<string, Finding> = new Map();
  return async () => {
    const networks = await listNetworks(deps);
    const findings = [
      ...(await checkStatus(networks, deps)),
      ...(await collectUnused(networks, deps)),
      ...(await checkAttachments(deps)),
    ];
    const current = new Map(findings.map((finding) => [finding.key, finding]));
    reportChanges(previous, current, deps);
    previous = current;
  };
}

const ALL_KEY = "*";
const UPKEEP_INTERVAL_MS = 3_600_000;

export async function runUpkeepLoop(deps: Deps, signal: AbortSignal): Promise<void> {
  const { clock, log } = deps;
  const queue = createQueue({ clock });
  const upkeep = createUpkeep(deps);
  queue.add(ALL_KEY);
  const reconcile = async (): Promise<Next> => {
    await upkeep();
    return after(UPKEEP_INTERVAL_MS);
  };
  await runReconciler({ name: "upkeep", queue, reconcile, log, clock }, signal);
}
