// SPDX-License-Identifier: Apache-2.0
// How do changes reach the page? One answer without an end, a line for each; it is asked for anew when it breaks.
import type { Line, Pulse } from "../model/objects.ts";
import { Deadline, pause } from "./clock.ts";
import type { Session } from "./session.ts";

/** Between two attempts, milliseconds. */
const AGAIN_MS = 1000;

/** After so long without a line the panel's server is taken for frozen, milliseconds: it misses two pulses. */
const SILENCE_MS = 9000;

/** Who wants to know. */
export interface Listener {
  readonly onLines: (lines: readonly Line[]) => void;
  /** Whether changes come now. */
  readonly onLive: (isLive: boolean) => void;
}

function take(parts: readonly string[], { onLines, onLive }: Listener): void {
  const lines = parts.map((part) => JSON.parse(part) as Line | Pulse); // the panel's own server
  const pulse = lines.findLast((line) => line.kind === "pulse");
  if (pulse !== undefined) onLive(pulse.isAnswering);
  const others = lines.filter((line) => line.kind !== "pulse");
  if (others.length > 0) onLines(others);
}

async function readOnce(session: Session, listener: Listener): Promise<boolean> {
  const { onLive } = listener;
  const response = await fetch("/watch", { headers: { "x-panel-key": session.key } });
  if (!response.ok || response.body === null) return response.status !== 401;
  onLive(true);
  const silence = new Deadline(SILENCE_MS, () => {
    onLive(false);
  });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      silence.restart();
      const { value, done } = await reader.read();
      if (done) return true;
      const parts = (rest + value).split("\n");
      rest = parts.pop() ?? "";
      take(parts, listener);
    }
  } finally {
    silence.end();
  }
}

/** Reads until the server knows the page no more. */
export async function follow(session: Session, listener: Listener): Promise<void> {
  let isKnown = true;
  while (isKnown) {
    isKnown = await readOnce(session, listener).catch(() => true);
    listener.onLive(false);
    if (isKnown) await pause(AGAIN_MS);
  }
}
