// SPDX-License-Identifier: Apache-2.0
// Prints the steps of a supervisor until the supervisor reaches a given phase or ends.
import { AppError } from "@patchbay/base";
import { waitForProcessEnd } from "@patchbay/os";
import type { Files } from "@patchbay/core/interfaces";
import type { Paths } from "../data-dir/paths.ts";
import { readState, type SupervisorPhase, type SupervisorState } from "./state.ts";

export type Print = (line: string) => void;

/** Formats a duration, for example 420 ms as `   0.42 s`. */
export function printSeconds(ms: number): string {
  return `${(ms / 1000).toFixed(2).padStart(7)} s`;
}

export interface FollowOptions {
  readonly files: Files;
  readonly paths: Paths;
  readonly print: Print;
  readonly pid: number;
  readonly startTime: string;
  readonly activePhase: SupervisorPhase;
  readonly endPhases: readonly SupervisorPhase[];
  readonly timeoutMs: number;
}

export interface FollowResult {
  readonly ended: boolean;
  readonly state: SupervisorState | undefined;
}

/** @throws AppError with OS_TIMED_OUT */
export async function follow(options: FollowOptions): Promise<FollowResult> {
  const { files, paths, print, pid, startTime, timeoutMs } = options;
  const stop = new AbortController();
  const timer = AbortSignal.timeout(timeoutMs);
  const onTimeout = (): void => {
    stop.abort(new AppError("OS_TIMED_OUT", { program: "the supervisor", timeoutMs }));
  };
  timer.addEventListener("abort", onTimeout, { once: true });
  const signal = stop.signal;
  let printed = 0;
  const readSteps = async (): Promise<SupervisorState | undefined> => {
    const state = await readState(files, paths);
    if (state?.pid !== pid) return undefined;
    const isRelevant =
      state.phase === options.activePhase || options.endPhases.includes(state.phase);
    const steps = isRelevant ? state.steps.slice(printed) : [];
    printed += steps.length;
    for (const { afterMs, text } of steps) print(`${printSeconds(afterMs)}  ${text}`);
    return state;
  };
  try {
    return await Promise.race([
      waitForPhase(options, readSteps, signal),
      waitForProcessEnd(pid, startTime, signal).then(async () => ({
        ended: true,
        state: await readSteps(),
      })),
    ]);
  } finally {
    timer.removeEventListener("abort", onTimeout);
    stop.abort(new Error("followed to the end"));
  }
}

function waitForPhase(
  options: FollowOptions,
  readSteps: () => Promise<SupervisorState | undefined>,
  signal: AbortSignal,
): Promise<FollowResult> {
  const { promise, resolve, reject } = Promise.withResolvers<FollowResult>();
  // Serializes reads of the state: each read waits for the previous read.
  let reading: Promise<void> = Promise.resolve();
  const readNext = (): void => {
    reading = reading.then(async () => {
      const state = await readSteps();
      const isReached = state !== undefined && options.endPhases.includes(state.phase);
      if (isReached) resolve({ ended: false, state });
    }, reject);
    reading.catch(reject);
  };
  options.files.watchDirectory(options.paths.run, readNext, signal);
  readNext();
  return promise;
}
