// SPDX-License-Identifier: Apache-2.0
// Which definitions does a change concern? Their own, and those of what they name; nothing is looked at while nothing changes.
import type { Files, Cache, Change } from "@patchbay/core/ports";
import { names, type Pod } from "@patchbay/api";
import { keyOf, printKey, type Queue } from "@patchbay/kube";
import { networksAskedBy } from "../../wake.ts";
import type { DefinitionDeps, Judged } from "./deps.ts";

/** What is watched, by definition. */
interface LeaseWatches {
  /** These directories and no others from now on; none: nothing any more. */
  set(key: string, directories: readonly string[]): void;
}

interface Watched {
  readonly directories: string;
  readonly stop: AbortController;
}

/** Calls `changed` with the definition of a directory in which something came or went, until the signal is aborted. */
export function watchLeases(
  files: Pick<Files, "watchDirectory">,
  changed: (key: string) => void,
  signal: AbortSignal,
): LeaseWatches {
  const watched = new Map<string, Watched>();
  return {
    set: (key, directories) => {
      const text = JSON.stringify(directories);
      const before = watched.get(key);
      if ((before?.directories ?? "[]") === text) return;
      before?.stop.abort();
      watched.delete(key);
      if (directories.length === 0) return;
      const stop = new AbortController();
      watched.set(key, { directories: text, stop });
      for (const directory of directories) {
        const tell = (): void => {
          changed(key);
        };
        files.watchDirectory(directory, tell, AbortSignal.any([stop.signal, signal]));
      }
    },
  };
}

type Waking = Pick<Queue, "add" | "addAfter">;

/** What is installed comes file by file, milliseconds. */
const SETTLE_MS = 1000;

function errorsOf(pod: Pod | undefined): string | undefined {
  return pod?.metadata.annotations?.[names.ATTACHMENT_ERRORS_ANNOTATION];
}

/** Who asks matters where a problem was told or only guests cannot use it, and each time when an attachment has failed. */
function concernedBy(change: Change<Pod>, judged: ReadonlyMap<string, Judged>): readonly string[] {
  const previous = change.kind === "added" ? undefined : change.previous;
  const current = change.kind === "deleted" ? undefined : change.current;
  const asked = new Set([previous ?? [], current ?? []].flat().flatMap(networksAskedBy));
  const hasFailed = errorsOf(current) !== undefined && errorsOf(current) !== errorsOf(previous);
  return [...asked].filter((network) => {
    const { told, isUnfitForGuests = false } = judged.get(network) ?? {};
    return hasFailed || told !== undefined || isUnfitForGuests;
  });
}

/** Wakes all definitions; `afterMs`: not before. */
function wakeAll(queue: Waking, { nads }: Pick<DefinitionDeps, "nads">, afterMs = 0): void {
  for (const nad of nads.list()) {
    const key = printKey(keyOf(nad));
    if (afterMs === 0) queue.add(key);
    else queue.addAfter(key, afterMs);
  }
}

/** Wakes definitions by what the API server tells, from now on. */
export function wakeByObjects(
  queue: Waking,
  deps: Pick<DefinitionDeps, "nads" | "policy" | "judged"> & { readonly pods: Cache<Pod> },
): void {
  deps.nads.onChange((change) => {
    queue.add(printKey(keyOf(change.kind === "deleted" ? change.previous : change.current)));
  });
  deps.policy.onChange(() => {
    wakeAll(queue, deps);
  });
  deps.pods.onChange((change) => {
    for (const network of concernedBy(change, deps.judged)) queue.add(network);
  });
}

/** Wakes all definitions when something comes into one of the directories, or goes. */
export function wakeByDirectories(
  queue: Waking,
  what: {
    readonly directories: readonly string[];
    readonly files: Pick<Files, "watchDirectory">;
    readonly signal: AbortSignal;
  },
  deps: Pick<DefinitionDeps, "nads">,
): void {
  for (const directory of what.directories) {
    what.files.watchDirectory(
      directory,
      () => {
        wakeAll(queue, deps, SETTLE_MS);
      },
      what.signal,
    );
  }
}

/** Wakes the definitions that name a link which is another one than when they were judged. */
export function wakeByLinks(
  queue: Pick<Waking, "add">,
  kinds: ReadonlyMap<string, string>,
  judged: ReadonlyMap<string, Judged>,
): void {
  for (const [key, { links }] of judged) {
    const hasChanged = [...links].some(([name, kind]) => kinds.get(name) !== kind);
    if (hasChanged) queue.add(key);
  }
}
