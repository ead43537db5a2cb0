// SPDX-License-Identifier: Apache-2.0
// Health checks that detect a hung event loop, like a kubelet's liveness probe.
import { once } from "node:events";
import { request, type IncomingMessage } from "node:http";
import type { Clock } from "@patchbay/core/ports";

/** Period and timeout of a check. Source: Kubernetes core/v1 Probe, periodSeconds. */
const PERIOD_MS = 10_000;
/** Consecutive failures. Source: Kubernetes core/v1 Probe, failureThreshold. */
const FAILURES_MAX = 3;
/** Consecutive failures during the start, which cover the time that a component may take until it is ready. */
const STARTING_FAILURES_MAX = 6;

/** `ask` rejects when the component does not answer. */
export interface HealthChecks {
  readonly clock: Clock;
  readonly check: (signal: AbortSignal) => Promise<void>;
  readonly signal: AbortSignal;
}

/**
 * Resolves when the component has not answered for 30 s, or for a minute after its start. Counts
 * checks instead of time, because this process may have been suspended itself. Rejects with the
 * signal's reason.
 */
export async function waitUntilHung({ clock, check, signal }: HealthChecks): Promise<void> {
  let failures = 0;
  let limit = STARTING_FAILURES_MAX;
  while (failures < limit) {
    const late = new AbortController();
    const onHealthy = (): void => {
      failures = 0;
      limit = FAILURES_MAX;
    };
    failures += 1; // reset when the answer arrives
    check(AbortSignal.any([signal, late.signal])).then(onHealthy, () => undefined);
    await clock.sleep(PERIOD_MS, signal);
    late.abort(new Error("it did not answer in time"));
  }
}

/** Rejects unless `/healthz` on the Unix socket answers 200. */
export async function checkHealth(socketPath: string, signal: AbortSignal): Promise<void> {
  const outgoing = request({ socketPath, path: "/healthz", agent: false, signal });
  const [answer] = (await once(outgoing.end(), "response")) as [IncomingMessage];
  answer.resume();
  if (answer.statusCode !== 200) throw new Error(`status ${String(answer.statusCode)}`);
}
