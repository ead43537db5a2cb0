// SPDX-License-Identifier: Apache-2.0
// Does a component stand still? One whose event loop hangs does not end by itself; it is asked, as a kubelet asks.
import { once } from "node:events";
import { request, type IncomingMessage } from "node:http";
import type { Clock } from "@patchbay/core/ports";

/** Time between two questions, and for an answer, milliseconds. Source: Kubernetes core/v1 Probe, periodSeconds. */
const PERIOD_MS = 10_000;
/** Questions in a row that stay without an answer. Source: Kubernetes core/v1 Probe, failureThreshold. */
const FAILURES_MAX = 3;
/** The same while it starts: as long as the supervisor waits until a component is ready. */
const STARTING_FAILURES_MAX = 6;

/** How a component is asked, and until when: rejects when it gives no answer. */
export interface Questions {
  readonly clock: Clock;
  readonly ask: (signal: AbortSignal) => Promise<void>;
  readonly signal: AbortSignal;
}

/**
 * Resolves when the component has given no answer for 30 s, or for a minute after its start. Questions are counted, not
 * time: while this process stood still itself, it asked nothing. Rejects with the signal's reason when it is aborted.
 */
export async function waitForStandstill({ clock, ask, signal }: Questions): Promise<void> {
  let failures = 0;
  let most = STARTING_FAILURES_MAX;
  while (failures < most) {
    const late = new AbortController();
    const onAnswer = (): void => {
      failures = 0;
      most = FAILURES_MAX;
    };
    failures += 1; // until the answer comes
    ask(AbortSignal.any([signal, late.signal])).then(onAnswer, () => undefined);
    await clock.sleep(PERIOD_MS, signal);
    late.abort(new Error("it did not answer in time"));
  }
}

/** Asks `/healthz` at a Unix socket; rejects when the answer is not 200. */
export async function askHealth(socketPath: string, signal: AbortSignal): Promise<void> {
  const asked = request({ socketPath, path: "/healthz", agent: false, signal });
  const [answer] = (await once(asked.end(), "response")) as [IncomingMessage];
  answer.resume();
  if (answer.statusCode !== 200) throw new Error(`status ${String(answer.statusCode)}`);
}
