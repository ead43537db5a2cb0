// SPDX-License-Identifier: Apache-2.0
// Queues definitions for a check after a change of a definition, a pod, the policy, a directory or a link.
import type { Files, Cache, Change } from "@patchbay/core/interfaces";
import { names } from "@patchbay/api";
import type { Pod } from "@patchbay/api/kubernetes";
import { keyOf, printKey, type Queue } from "@patchbay/kube";
import { listRequestedNetworks } from "../../wake.ts";
import type { DefinitionDeps, CheckedDefinition } from "./deps.ts";

interface LeaseWatches {
  set(key: string, directories: readonly string[]): void;
}

interface WatchedDirectories {
  readonly directories: string;
  readonly stop: AbortController;
}

/** Watches lease directories. Calls `onChange` with the definition's key when a file is created or deleted. */
export function watchLeases(
  files: Pick<Files, "watchDirectory">,
  onChange: (key: string) => void,
  signal: AbortSignal,
): LeaseWatches {
  const watchesByKey = new Map<string, WatchedDirectories>();
  return {
    set: (key, directories) => {
      const text = JSON.stringify(directories);
      const previous = watchesByKey.get(key);
      if ((previous?.directories ?? "[]") === text) return;
      previous?.stop.abort();
      watchesByKey.delete(key);
      if (directories.length === 0) return;
      const stop = new AbortController();
      watchesByKey.set(key, { directories: text, stop });
      for (const directory of directories) {
        const notify = (): void => {
          onChange(key);
        };
        files.watchDirectory(directory, notify, AbortSignal.any([stop.signal, signal]));
      }
    },
  };
}

type WakeQueue = Pick<Queue, "add" | "addAfter">;

/** Delay in milliseconds from a directory change to the check, so that one check covers all files that a plugin's installation changes. */
const CHECK_DELAY_MS = 1000;

function readAttachmentErrors(pod: Pod | undefined): string | undefined {
  return pod?.metadata.annotations?.[names.ATTACHMENT_ERRORS_ANNOTATION];
}

/**
 * Returns the networks to check again after a change of a pod that requests them: all its networks if the pod has a new attachment error,
 * otherwise only networks that have a problem or are unfit for guests.
 */
function findAffectedNetworks(
  change: Change<Pod>,
  checkedDefinitions: ReadonlyMap<string, CheckedDefinition>,
): readonly string[] {
  const previous = change.kind === "added" ? undefined : change.previous;
  const current = change.kind === "deleted" ? undefined : change.current;
  const requested = new Set([previous ?? [], current ?? []].flat().flatMap(listRequestedNetworks));
  const hasFailed =
    readAttachmentErrors(current) !== undefined &&
    readAttachmentErrors(current) !== readAttachmentErrors(previous);
  return [...requested].filter((network) => {
    const { reported, isUnfitForGuests = false } = checkedDefinitions.get(network) ?? {};
    return hasFailed || reported !== undefined || isUnfitForGuests;
  });
}

function wakeAll(queue: WakeQueue, { nads }: Pick<DefinitionDeps, "nads">, afterMs = 0): void {
  for (const nad of nads.list()) {
    const key = printKey(keyOf(nad));
    if (afterMs === 0) queue.add(key);
    else queue.addAfter(key, afterMs);
  }
}

export function wakeByObjects(
  queue: WakeQueue,
  deps: Pick<DefinitionDeps, "nads" | "policy" | "checkedDefinitions"> & {
    readonly pods: Cache<Pod>;
  },
): void {
  deps.nads.onChange((change) => {
    queue.add(printKey(keyOf(change.kind === "deleted" ? change.previous : change.current)));
  });
  deps.policy.onChange(() => {
    wakeAll(queue, deps);
  });
  deps.pods.onChange((change) => {
    for (const network of findAffectedNetworks(change, deps.checkedDefinitions)) queue.add(network);
  });
}

export function wakeByDirectories(
  queue: WakeQueue,
  options: {
    readonly directories: readonly string[];
    readonly files: Pick<Files, "watchDirectory">;
    readonly signal: AbortSignal;
  },
  deps: Pick<DefinitionDeps, "nads">,
): void {
  for (const directory of options.directories) {
    options.files.watchDirectory(
      directory,
      () => {
        wakeAll(queue, deps, CHECK_DELAY_MS);
      },
      options.signal,
    );
  }
}

export function wakeByLinks(
  queue: Pick<WakeQueue, "add">,
  kinds: ReadonlyMap<string, string>,
  checkedDefinitions: ReadonlyMap<string, CheckedDefinition>,
): void {
  for (const [key, { links }] of checkedDefinitions) {
    const hasChanged = [...links].some(([name, kind]) => kinds.get(name) !== kind);
    if (hasChanged) queue.add(key);
  }
}
