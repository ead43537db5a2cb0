// SPDX-License-Identifier: Apache-2.0
// The loop over NetworkAttachmentDefinitions. Changes of a definition, a pod, the policy, a plugin or a link trigger checks.
import type { MetricFamily } from "@patchbay/core/metrics";
import { messageOf } from "@patchbay/base";
import type { CheckedDefinition, DefinitionDeps } from "./deps.ts";
import { createQueue, done, runReconciler, type Next } from "@patchbay/kube";
import type { Files, LinkWatch, OpenNetns } from "@patchbay/core/interfaces";
import type { Metrics } from "@patchbay/telemetry";
import { reconcileDefinition } from "./index.ts";
import { watchLeases, wakeByDirectories, wakeByLinks, wakeByObjects } from "./wake.ts";

/** Builds the metric of definitions with problems on this node. A definition counts once for each reason. */
export function buildProblemsFamily(
  checkedDefinitions: Iterable<Pick<CheckedDefinition, "reasons">>,
): MetricFamily {
  const reasons = [...checkedDefinitions].flatMap((each) => [...new Set(each.reasons)]);
  const samples = [...Map.groupBy(reasons, (reason) => reason)].map(([reason, occurrences]) => ({
    labels: { reason },
    value: occurrences.length,
  }));
  return {
    name: "patchbay_network_problems",
    help: "Network definitions with a problem on this node, by reason.",
    type: "gauge",
    samples,
  };
}

/** Queue key for a change of the host's links; other keys are NAMESPACE/NAME. */
const LINKS_KEY = "*links";

export interface DefinitionLoopParts extends Omit<DefinitionDeps, "checkedDefinitions"> {
  readonly files: Pick<Files, "list" | "watchDirectory">;
  readonly linkWatch: LinkWatch;
  readonly openHostNetns: () => OpenNetns;
  readonly directories: readonly string[];
  readonly metrics: Metrics;
}

/** Watches the host's links. If the watch fails, logs the failure; changes of links then trigger no checks. */
function watchHostLinks(
  { linkWatch, openHostNetns, log }: DefinitionLoopParts,
  onChange: () => void,
  signal: AbortSignal,
): void {
  const netns = openHostNetns();
  try {
    linkWatch.watch(netns, onChange, signal);
  } catch (error) {
    log.warn("host links cannot be watched", { reason: messageOf(error) });
  } finally {
    netns.close();
  }
}

export async function runDefinitionLoop(
  parts: DefinitionLoopParts,
  signal: AbortSignal,
): Promise<void> {
  const { clock, log, files, directories, metrics } = parts;
  const checkedDefinitions = new Map<string, CheckedDefinition>();
  metrics.addSource(() => Promise.resolve([buildProblemsFamily(checkedDefinitions.values())]));
  const deps: DefinitionDeps = { ...parts, checkedDefinitions };
  const queue = createQueue({ clock });
  const leaseWatches = watchLeases(
    files,
    (key) => {
      queue.add(key);
    },
    signal,
  );
  wakeByObjects(queue, deps);
  wakeByDirectories(queue, { directories, files, signal }, deps);
  watchHostLinks(
    parts,
    () => {
      queue.add(LINKS_KEY);
    },
    signal,
  );
  for (const { metadata } of parts.nads.list()) {
    queue.add(`${metadata.namespace ?? ""}/${metadata.name}`);
  }
  const reconcile = async (key: string): Promise<Next> => {
    if (key === LINKS_KEY) {
      wakeByLinks(
        queue,
        checkedDefinitions.size === 0 ? new Map() : await parts.node.listLinkKinds(),
        checkedDefinitions,
      );
      return done();
    }
    const next = await reconcileDefinition(key, deps);
    leaseWatches.set(key, checkedDefinitions.get(key)?.fullLeaseDirectories ?? []);
    return next;
  };
  await runReconciler({ name: "definition", queue, reconcile, log, clock }, signal);
}
