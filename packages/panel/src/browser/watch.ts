// SPDX-License-Identifier: Apache-2.0
// How do changes reach the page? One answer without an end, a line for each; it is asked for anew when it breaks.
import type { Line } from "../model/objects.ts";
import { pause } from "./clock.ts";
import type { Session } from "./session.ts";

/** Between two attempts, milliseconds. */
const AGAIN_MS = 1000;

/** Who wants to know. */
export interface Listener {
  readonly onLines: (lines: readonly Line[]) => void;
  /** Whether changes come now. */
  readonly onLive: (isLive: boolean) => void;
}

async function readOnce(session: Session, { onLines, onLive }: Listener): Promise<boolean> {
  const response = await fetch("/watch", { headers: { "x-panel-key": session.key } });
  if (!response.ok || response.body === null) return response.status !== 401;
  onLive(true);
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return true;
    const parts = (rest + value).split("\n");
    rest = parts.pop() ?? "";
    if (parts.length > 0) onLines(parts.map((part) => JSON.parse(part) as Line)); // the panel's own server
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
