// SPDX-License-Identifier: Apache-2.0
// Which writes lose their race again and again? A race is lost once or twice; whoever always loses is at fault himself.
import { AppError, isAppError } from "@patchbay/core";

/** Losses in a row of one object from which on they are told as a fault. */
const LOST_MAX = 5;
/** Most objects whose losses are remembered; the one that lost first is forgotten first. */
const REMEMBERED_MAX = 1000;

/** Whether somebody else is said to have been faster. */
export function isLostRace(error: unknown): error is AppError {
  return isAppError(error, "KUBE_CONFLICT") || isAppError(error, "KUBE_WRITES_LOST");
}

/** Counts the losses in a row of each object, or of a subresource of it, by its path. */
export class LostWrites {
  readonly #losses = new Map<string, number>();

  /** What a failed write is to throw: from the fifth loss in a row on KUBE_WRITES_LOST, in the server's words. */
  judge(path: string, error: unknown): unknown {
    if (!isAppError(error, "KUBE_CONFLICT")) return error;
    const count = (this.#losses.get(path) ?? 0) + 1;
    this.#losses.set(path, count);
    const [first] = this.#losses.keys();
    if (this.#losses.size > REMEMBERED_MAX && first !== undefined) this.#losses.delete(first);
    if (count < LOST_MAX) return error;
    return new AppError("KUBE_WRITES_LOST", { ...error.details, count }, { cause: error });
  }

  /** A write was done. */
  succeed(path: string): void {
    this.#losses.delete(path);
  }
}
