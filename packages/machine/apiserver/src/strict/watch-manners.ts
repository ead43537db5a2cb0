// SPDX-License-Identifier: Apache-2.0
// How does the server treat those who watch: as kindly as it can, or as a cluster's does?
import type { Kind } from "../kinds/kind.ts";
import { bucketOf } from "../kinds/kind.ts";

/** What is watched from where. */
export interface WatchRequest {
  readonly kind: Kind;
  readonly namespace: string;
  readonly query: URLSearchParams;
  /** Name of who asks. */
  readonly user: string;
  /** 0: from all objects that there are. */
  readonly revision: number;
}

/** How watches are treated. */
export interface WatchManners {
  /** Whether a bookmark is sent also where nothing was told. */
  readonly bookmarksWhenQuiet: boolean;
  /** How long a watch lasts for which `timeoutMs` was asked. */
  lastingMs(timeoutMs: number): number;
  /** Whether the place counts as forgotten, though the store has it still. */
  hasForgotten(request: WatchRequest): boolean;
}

/** As kind as can be. */
export const KIND_MANNERS: WatchManners = {
  bookmarksWhenQuiet: true,
  lastingMs: (timeoutMs) => timeoutMs,
  hasForgotten: () => false,
};

/** Watches of a strict server end after this and up to as much again, milliseconds: in minutes a test would not see it. */
const LASTING_MS = 5000;

/** Most watches of which is remembered that they were told to list. */
const REMEMBERED_MAX = 10_000;

/**
 * As a cluster's server that was restarted a moment ago: its cache begins anew, so that whoever goes on from before
 * gets one 410; quiet watches get no bookmarks; and watches end. `random` gives 0 to 1.
 */
export function strictManners(startRevision: number, random: () => number): WatchManners {
  const told = new Set<string>();
  return {
    bookmarksWhenQuiet: false,
    lastingMs: (timeoutMs) => Math.min(timeoutMs, Math.round(LASTING_MS * (1 + random()))),
    hasForgotten: ({ kind, namespace, query, user, revision }) => {
      if (revision === 0 || revision > startRevision) {
        return false;
      }
      const selectors = [query.get("labelSelector"), query.get("fieldSelector")];
      const id = JSON.stringify([user, bucketOf(kind), namespace, ...selectors]);
      if (told.has(id) || told.size >= REMEMBERED_MAX) {
        return false;
      }
      told.add(id);
      return true;
    },
  };
}
