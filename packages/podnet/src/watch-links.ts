// SPDX-License-Identifier: Apache-2.0
// Tells when a link comes, goes or changes in a network namespace.
import type { NetnsHandle } from "@patchbay/ports";
import type { Iproute2 } from "./run-in.ts";

/** A monitor is replaced after a day at the latest: every program has a deadline. */
const LIFETIME_MS = 24 * 60 * 60 * 1000;
/** Between the end of a monitor and the next. */
const RESTART_AFTER_MS = 1_000;

/**
 * rtmon first subscribes and then writes the links that are there, so that nothing is lost between a reading of
 * the links and the watch. It writes to a file that it opens by name, which a socket is not: hence the pipe. The
 * text is constant. All of it dies with this process (setpriv), else it would keep the namespace.
 */
const MONITOR: readonly [string, ...string[]] = [
  ...(["setpriv", "--pdeathsig", "KILL", "nsenter", "--net=/proc/self/fd/3"] as const),
  ...["sh", "-c", "setpriv --pdeathsig KILL rtmon file /dev/stdout link | cat"],
];

/** Calls `changed` once at the start and when links may have changed, until aborted. Equivalent to: `ip monitor link`. */
export function watchLinks(
  iproute2: Iproute2,
  netns: NetnsHandle,
  watch: { readonly changed: () => void; readonly signal: AbortSignal },
): void {
  void follow(iproute2, netns, watch);
}

async function follow(
  { runner, clock }: Iproute2,
  netns: NetnsHandle,
  { changed, signal }: { readonly changed: () => void; readonly signal: AbortSignal },
): Promise<void> {
  while (!signal.aborted) {
    try {
      await runner.run({
        argv: MONITOR,
        inheritFds: [netns],
        timeoutMs: LIFETIME_MS,
        signal,
        onOutput: () => {
          changed();
        },
      });
    } catch {
      // Aborted, or the monitor was killed: the loop's condition tells which; a new one begins with a full look.
    }
    await clock.sleep(RESTART_AFTER_MS, signal).catch(() => undefined);
  }
}
