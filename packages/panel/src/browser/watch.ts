// SPDX-License-Identifier: Apache-2.0
// Reads changes of objects from a streamed response, one per line. Sends a new request when the response ends.
import type { Line, Pulse } from "../model/objects.ts";
import { Deadline, sleep } from "./timing.ts";
import type { Session } from "./session.ts";

const RETRY_INTERVAL_MS = 1000;

/** Time without a line after which the connection counts as lost, in milliseconds. The panel's server sends a pulse every 4 s. */
const SILENCE_TIMEOUT_MS = 9000;

export interface Listener {
  readonly onLines: (lines: readonly Line[]) => void;
  readonly onLive: (isLive: boolean) => void;
}

function handleLines(parts: readonly string[], { onLines, onLive }: Listener): void {
  const lines = parts.map((part) => JSON.parse(part) as Line | Pulse);
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
  const silence = new Deadline(SILENCE_TIMEOUT_MS, () => {
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
      handleLines(parts, listener);
    }
  } finally {
    silence.end();
  }
}

/** Reads changes, and reconnects when the connection ends, until the server rejects the session's key. */
export async function follow(session: Session, listener: Listener): Promise<void> {
  let isKnown = true;
  while (isKnown) {
    isKnown = await readOnce(session, listener).catch(() => true);
    listener.onLive(false);
    if (isKnown) await sleep(RETRY_INTERVAL_MS);
  }
}
