// SPDX-License-Identifier: Apache-2.0
// Measures, for each pod, how much the sparse files of its claims have grown recently.
import type { Clock } from "@patchbay/base";
import type { VolumeDisk } from "@patchbay/core/interfaces";
import { GrowthTracker, type Growths } from "../volumes/storage/growth.ts";
import type { ClaimMachine } from "./deps.ts";
import { isHandle, buildClaimPaths } from "./names.ts";

interface ClaimGrowthDeps extends Pick<ClaimMachine, "claimsDir" | "files"> {
  readonly clock: Clock;
  readonly usedBytes: VolumeDisk["usedBytes"];
}

class ClaimGrowth implements Growths {
  readonly #deps: ClaimGrowthDeps;
  readonly #tracker = new GrowthTracker();
  #handlesByUser = new Map<string, Set<string>>();

  constructor(deps: ClaimGrowthDeps) {
    this.#deps = deps;
  }

  async measure(): Promise<ReadonlyMap<string, ReadonlyMap<string, number>>> {
    const { clock, files, claimsDir, usedBytes } = this.#deps;
    const handles = (await files.list(claimsDir)).filter(isHandle);
    const usedByFile = await usedBytes(
      handles.map((handle) => buildClaimPaths(claimsDir, handle).file),
    );
    const sizes = handles.map((handle) => {
      return [handle, usedByFile.get(buildClaimPaths(claimsDir, handle).file) ?? 0] as const;
    });
    const growthByHandle = this.#tracker.updateSizes(new Map(sizes), clock.monotonicMs());
    return this.#groupByUser([...growthByHandle].filter(([, bytes]) => bytes > 0));
  }

  resetGrowth(uid: string): void {
    for (const handle of this.#handlesByUser.get(uid) ?? []) this.#tracker.resetGrowth(handle);
  }

  async #groupByUser(
    growthByHandle: readonly (readonly [handle: string, bytes: number])[],
  ): Promise<ReadonlyMap<string, ReadonlyMap<string, number>>> {
    const { files, claimsDir } = this.#deps;
    const growthByUser = new Map<string, Map<string, number>>();
    this.#handlesByUser = new Map();
    for (const [handle, bytes] of growthByHandle) {
      for (const uid of await files.list(buildClaimPaths(claimsDir, handle).users)) {
        const podGrowth = growthByUser.get(uid) ?? new Map<string, number>();
        growthByUser.set(uid, podGrowth.set(`new data of claim volume "${handle}"`, bytes));
        this.#handlesByUser.set(uid, (this.#handlesByUser.get(uid) ?? new Set()).add(handle));
      }
    }
    return growthByUser;
  }
}

export function createClaimGrowth(deps: ClaimGrowthDeps): Growths {
  return new ClaimGrowth(deps);
}
