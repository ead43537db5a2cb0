// SPDX-License-Identifier: Apache-2.0
// The loop over network definitions. It checks a definition after a change of the definition or of anything that it names.
import type { MetricFamily } from "@patchbay/core/metrics";
import { messageOf } from "@patchbay/base";
import type { CheckedDefinition, DefinitionDeps } from "./deps.ts";
import { createQueue, done, runReconciler, type Next } from "@patchbay/kube";
import type { Files, LinkWatch, OpenNetns } from "@patchbay/core/interfaces";
import type { Metrics } from "@patchbay/telemetry";
import { reconcileDefinition } from "./index.ts";
import { watchLeases, wakeByDirectories, wakeByLinks, wakeByObjects } from "./wake.ts";

/** Counts definitions with problems on this node, by reason. A definition counts once for each of its reasons. */
export function buildProblemsFamily(
  checked: Iterable<Pick<CheckedDefinition, "reasons">>,
): MetricFamily {
  const reasons = [...checked].flatMap((each) => [...new Set(each.reasons)]);
  const samples = [...Map.groupBy(reasons, (reason) => reason)].map(([reason, all]) => ({
    labels: { reason },
    value: all.length,
  }));
  return {
    name: "patchbay_network_problems",
    help: "Network definitions with a problem on this node, by reason.",
    type: "gauge",
    samples,
  };
}

/** Queue key for a change of the host's links; other keys are NAMESPACE/NAME. */
const LINKS = "*links";

export interface DefinitionLoopParts extends Omit<DefinitionDeps, "checked"> {
  readonly files: Pick<Files, "list" | "watchDirectory">;
  readonly linkWatch: LinkWatch;
  readonly openHostNetns: () => OpenNetns;
  readonly directories: readonly string[];
  readonly metrics: Metrics;
}

/** Watches the host's links. If that fails, changes of links trigger no check. */
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
  const checked = new Map<string, CheckedDefinition>();
  metrics.addSource(() => Promise.resolve([buildProblemsFamily(checked.values())]));
  const deps: DefinitionDeps = { ...parts, checked };
  const queue = createQueue({ clock });
  const leases = watchLeases(
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
      queue.add(LINKS);
    },
    signal,
  );
  for (const { metadata } of parts.nads.list()) {
    queue.add(`${metadata.namespace ?? ""}/${metadata.name}`);
  }
  const reconcile = async (key: string): Promise<Next> => {
    if (key === LINKS) {
      wakeByLinks(
        queue,
        checked.size === 0 ? new Map() : await parts.node.listLinkKinds(),
        checked,
      );
      return done();
    }
    const next = await reconcileDefinition(key, deps);
    leases.set(key, checked.get(key)?.exhausted ?? []);
    return next;
  };
  await runReconciler({ name: "definition", queue, reconcile, log, clock }, signal);
}
