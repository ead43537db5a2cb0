// SPDX-License-Identifier: Apache-2.0
// Which pods make the storage of claims grow? Files are sparse: what they take of the disk is looked at, and who uses them now.
import type { Clock, VolumeDisk } from "@patchbay/core/ports";
import { GrowthMarks, type Growths } from "../../volumes/storage/growth.ts";
import type { ClaimMachine } from "../deps.ts";
import { isHandle, placesOf } from "../layout.ts";

/** The machine. */
export interface ClaimGrowthDeps extends Pick<ClaimMachine, "claimsDir" | "files"> {
  readonly clock: Clock;
  readonly usedBytes: VolumeDisk["usedBytes"];
}

class ClaimGrowth implements Growths {
  readonly #deps: ClaimGrowthDeps;
  readonly #marks = new GrowthMarks();
  /** Handles by uid of a pod, as of the last look. */
  #users = new Map<string, Set<string>>();

  constructor(deps: ClaimGrowthDeps) {
    this.#deps = deps;
  }

  async measure(): Promise<ReadonlyMap<string, ReadonlyMap<string, number>>> {
    const { clock, files, claimsDir, usedBytes } = this.#deps;
    const handles = (await files.list(claimsDir)).filter(isHandle);
    const used = await usedBytes(handles.map((handle) => placesOf(claimsDir, handle).file));
    const held = handles.map((handle) => {
      return [handle, used.get(placesOf(claimsDir, handle).file) ?? 0] as const;
    });
    const grown = this.#marks.take(new Map(held), clock.monotonicMs());
    return this.#byUser([...grown].filter(([, bytes]) => bytes > 0));
  }

  forgive(uid: string): void {
    for (const handle of this.#users.get(uid) ?? []) this.#marks.forgive(handle);
  }

  async #byUser(
    grown: readonly (readonly [handle: string, bytes: number])[],
  ): Promise<ReadonlyMap<string, ReadonlyMap<string, number>>> {
    const { files, claimsDir } = this.#deps;
    const amounts = new Map<string, Map<string, number>>();
    this.#users = new Map();
    for (const [handle, bytes] of grown) {
      for (const uid of await files.list(placesOf(claimsDir, handle).users)) {
        const own = amounts.get(uid) ?? new Map<string, number>();
        amounts.set(uid, own.set(`new data of claim volume "${handle}"`, bytes));
        this.#users.set(uid, (this.#users.get(uid) ?? new Set()).add(handle));
      }
    }
    return amounts;
  }
}

/** Nothing has grown at first. */
export function createClaimGrowth(deps: ClaimGrowthDeps): Growths {
  return new ClaimGrowth(deps);
}
