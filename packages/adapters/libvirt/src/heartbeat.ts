// SPDX-License-Identifier: Apache-2.0
// Is the child alive? Neither a child whose JavaScript hangs nor one whose libvirt hangs ends by itself.
import type { Clock } from "@patchbay/core/ports";
import type { Beat } from "./protocol.ts";

/** Beats in a row that may stay without an answer; one may be late since this process itself was busy. */
const MISSED_MAX = 2;

/** How a child is asked whether it lives, and who hears that it does not. */
export interface HeartOptions {
  readonly clock: Clock;
  /** Time between two beats, milliseconds; also how long libvirt's event loop may stand still. */
  readonly beatMs: number;
  /** Aborted when the child has ended. */
  readonly signal: AbortSignal;
  ask(): void;
  /** Called once, with the reason; then it is watched no longer. */
  onSilent(reason: string): void;
}

/** The ear for the child's answers. */
export interface Heart {
  accept(beat: Beat): void;
}

/** Asks the child again and again whether it lives. */
export function watchHeart(options: HeartOptions): Heart {
  const { clock, beatMs, signal } = options;
  let missed = 0;
  let silence: string | undefined;
  const beat = async (): Promise<void> => {
    while (missed < MISSED_MAX && silence === undefined) {
      options.ask();
      missed += 1; // until the answer comes
      await clock.sleep(beatMs, signal);
    }
    options.onSilent(silence ?? "it no longer answers");
  };
  beat().catch(() => undefined); // the child has ended
  return {
    accept({ eventLoopAgeMs }): void {
      missed = 0;
      if (eventLoopAgeMs > beatMs) silence = "its libvirt event loop stands still";
    },
  };
}
