// SPDX-License-Identifier: Apache-2.0
// The loop over the definitions of networks: each is judged when it changes, or something that it names.
import { type MetricFamily, messageOf } from "@patchbay/core";
import type { Judged, DefinitionDeps } from "./deps.ts";
import { createQueue, done, runReconciler, type Next } from "@patchbay/kube";
import type { Files, LinkWatch, OpenNetns } from "@patchbay/core/ports";
import type { Metrics } from "@patchbay/telemetry";
import { reconcileDefinition } from "./index.ts";
import { watchLeases, wakeByDirectories, wakeByLinks, wakeByObjects } from "./wake.ts";

/** The definitions that have a problem on this node, by reason; one with two problems counts under both. */
export function problemsFamily(judged: Iterable<Pick<Judged, "reasons">>): MetricFamily {
  const reasons = [...judged].flatMap((each) => [...new Set(each.reasons)]);
  const samples = [...Map.groupBy(reasons, (reason) => reason)].map(([reason, all]) => ({
    labels: { reason },
    value: all.length,
  }));
  return {
    name: "patchbay_network_problems",
    help: "Definitions of networks that have a problem on this node, by reason.",
    type: "gauge",
    samples,
  };
}

/** The key of all links; others are NAMESPACE/NAME. */
const LINKS = "*links";

/** A node, and what tells that something on it has changed. */
export interface DefinitionLoopParts extends Omit<DefinitionDeps, "judged"> {
  readonly files: Pick<Files, "list" | "watchDirectory">;
  readonly linkWatch: LinkWatch;
  readonly openHostNetns: () => OpenNetns;
  /** Directories of plugins and of definitions. */
  readonly directories: readonly string[];
  readonly metrics: Metrics;
}

/** Tells that links of the host have changed; where that cannot be watched, definitions are judged without it. */
function watchHostLinks(
  { linkWatch, openHostNetns, log }: DefinitionLoopParts,
  changed: () => void,
  signal: AbortSignal,
): void {
  const netns = openHostNetns();
  try {
    linkWatch.watch(netns, changed, signal);
  } catch (error) {
    log.warn("links of the host are not watched", { reason: messageOf(error) });
  } finally {
    netns.close();
  }
}

/** Judges definitions until the signal is aborted. */
export async function runDefinitionLoop(
  parts: DefinitionLoopParts,
  signal: AbortSignal,
): Promise<void> {
  const { clock, log, files, directories, metrics } = parts;
  const judged = new Map<string, Judged>();
  metrics.addSource(() => Promise.resolve([problemsFamily(judged.values())]));
  const deps: DefinitionDeps = { ...parts, judged };
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
      wakeByLinks(queue, judged.size === 0 ? new Map() : await parts.node.linkKinds(), judged);
      return done();
    }
    const next = await reconcileDefinition(key, deps);
    leases.set(key, judged.get(key)?.exhausted ?? []);
    return next;
  };
  await runReconciler({ name: "definition", queue, reconcile, log, clock }, signal);
}
