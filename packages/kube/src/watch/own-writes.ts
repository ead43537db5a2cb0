// SPDX-License-Identifier: Apache-2.0
// Whether a cache has caught up with what this process itself wrote, so that no decision rests on an older fact.
import type { KubeObject } from "@patchbay/api";

/** Remembers the newest version of each object that this process wrote. */
export interface OwnWrites {
  note(written: KubeObject): void;
  /** Whether `cached` is older than the last write of it; once it is not, the write is forgotten. */
  isBehind(cached: KubeObject): boolean;
}

/** Resource versions of one server are ordered. Source: Kubernetes KEP-5504 "Comparable Resource Version". */
function versionOf(object: KubeObject): bigint {
  const text = object.metadata.resourceVersion ?? "0";
  return /^\d+$/.test(text) ? BigInt(text) : 0n;
}

/** Remembers nothing at first, and nothing over a restart: an older fact makes a pass idle, never wrong. */
export function createOwnWrites(): OwnWrites {
  const newest = new Map<string, bigint>();
  return {
    note(written): void {
      newest.set(written.metadata.uid ?? "", versionOf(written));
    },
    isBehind(cached): boolean {
      const uid = cached.metadata.uid ?? "";
      const written = newest.get(uid);
      if (written === undefined) return false;
      if (versionOf(cached) < written) return true;
      newest.delete(uid);
      return false;
    },
  };
}
