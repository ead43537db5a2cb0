// SPDX-License-Identifier: Apache-2.0
// How a command follows the supervisor: prints each step and waits for a phase or for its end.
import { AppError } from "@patchbay/core";
import { waitForProcessEnd } from "@patchbay/os";
import type { Files } from "@patchbay/core/ports";
import type { Paths } from "../data-dir/paths.ts";
import { readState, type SupervisorPhase, type SupervisorState } from "./state.ts";

/** Prints one line for a person. */
export type Print = (line: string) => void;

/** Writes a time as the commands print it, for example `  0.42 s`. */
export function printSeconds(ms: number): string {
  return `${(ms / 1000).toFixed(2).padStart(7)} s`;
}

/** What is followed. */
export interface Following {
  readonly files: Files;
  readonly paths: Paths;
  readonly print: Print;
  readonly pid: number;
  readonly startTime: string;
  /** Steps of these phases are printed. */
  readonly during: SupervisorPhase;
  /** When to end. */
  readonly until: readonly SupervisorPhase[];
  readonly timeoutMs: number;
}

/** How it came out: the phase was reached, or the process ended before. */
export interface FollowResult {
  readonly ended: boolean;
  readonly state: SupervisorState | undefined;
}

/**
 * Follows until one of the phases, or until the process has ended.
 * @throws AppError with OS_TIMED_OUT
 */
export async function follow(following: Following): Promise<FollowResult> {
  const { files, paths, print, pid, startTime, timeoutMs } = following;
  const stop = new AbortController();
  const timer = AbortSignal.timeout(timeoutMs);
  const onLate = (): void => {
    stop.abort(new AppError("OS_TIMED_OUT", { program: "the supervisor", timeoutMs }));
  };
  timer.addEventListener("abort", onLate, { once: true });
  const all = stop.signal;
  let printed = 0;
  const look = async (): Promise<SupervisorState | undefined> => {
    const state = await readState(files, paths);
    if (state?.pid !== pid) return undefined;
    const isAsked = state.phase === following.during || following.until.includes(state.phase);
    const steps = isAsked ? state.steps.slice(printed) : [];
    printed += steps.length;
    for (const { afterMs, text } of steps) print(`${printSeconds(afterMs)}  ${text}`);
    return state;
  };
  try {
    return await Promise.race([
      waitForPhase(following, look, all),
      waitForProcessEnd(pid, startTime, all).then(async () => ({
        ended: true,
        state: await look(),
      })),
    ]);
  } finally {
    timer.removeEventListener("abort", onLate);
    stop.abort(new Error("followed to the end"));
  }
}

function waitForPhase(
  following: Following,
  look: () => Promise<SupervisorState | undefined>,
  signal: AbortSignal,
): Promise<FollowResult> {
  const { promise, resolve, reject } = Promise.withResolvers<FollowResult>();
  // One look at a time, and one more when something changed meanwhile.
  let looking: Promise<void> = Promise.resolve();
  const wake = (): void => {
    looking = looking.then(async () => {
      const state = await look();
      const isThere = state !== undefined && following.until.includes(state.phase);
      if (isThere) resolve({ ended: false, state });
    }, reject);
    looking.catch(reject);
  };
  following.files.watchDirectory(following.paths.run, wake, signal);
  wake();
  return promise;
}
