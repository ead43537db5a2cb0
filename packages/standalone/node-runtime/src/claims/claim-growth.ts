// SPDX-License-Identifier: Apache-2.0
// Measures which pods make the sparse files of claims grow.
import type { Clock } from "@patchbay/base";
import type { VolumeDisk } from "@patchbay/core/interfaces";
import { GrowthTracker, type Growths } from "../volumes/storage/growth.ts";
import type { ClaimMachine } from "./deps.ts";
import { isHandle, claimPaths } from "./names.ts";

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
    const used = await usedBytes(handles.map((handle) => claimPaths(claimsDir, handle).file));
    const sizes = handles.map((handle) => {
      return [handle, used.get(claimPaths(claimsDir, handle).file) ?? 0] as const;
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
    const amounts = new Map<string, Map<string, number>>();
    this.#handlesByUser = new Map();
    for (const [handle, bytes] of growthByHandle) {
      for (const uid of await files.list(claimPaths(claimsDir, handle).users)) {
        const podAmounts = amounts.get(uid) ?? new Map<string, number>();
        amounts.set(uid, podAmounts.set(`new data of claim volume "${handle}"`, bytes));
        this.#handlesByUser.set(uid, (this.#handlesByUser.get(uid) ?? new Set()).add(handle));
      }
    }
    return amounts;
  }
}

export function createClaimGrowth(deps: ClaimGrowthDeps): Growths {
  return new ClaimGrowth(deps);
}
