// SPDX-License-Identifier: Apache-2.0
// Checks the health of components, like a kubelet's liveness probe, to detect a blocked event loop.
import { once } from "node:events";
import { request, type IncomingMessage } from "node:http";
import type { Clock } from "@patchbay/base";

/** Source: default periodSeconds of Kubernetes' probes. */
const PERIOD_MS = 10_000;
/** Source: default failureThreshold of Kubernetes' probes. */
const FAILURES_MAX = 3;
/** Allowed failures before the first success. Six periods are one minute, which the start of a component may take. */
const STARTING_FAILURES_MAX = 6;

/** Health checks of a component. `check` rejects when the component does not respond. */
export interface HealthChecks {
  readonly clock: Clock;
  readonly check: (signal: AbortSignal) => Promise<void>;
  readonly signal: AbortSignal;
}

/**
 * Resolves when a component hangs. Counts failed checks, because a single time limit could expire while this process is suspended.
 * @throws the signal's reason
 */
export async function waitUntilHung({ clock, check, signal }: HealthChecks): Promise<void> {
  let failures = 0;
  let limit = STARTING_FAILURES_MAX;
  while (failures < limit) {
    const timeout = new AbortController();
    const onHealthy = (): void => {
      failures = 0;
      limit = FAILURES_MAX;
    };
    failures += 1; // Counts the check as failed until `onHealthy` resets the count.
    check(AbortSignal.any([signal, timeout.signal])).then(onHealthy, () => undefined);
    await clock.sleep(PERIOD_MS, signal);
    timeout.abort(new Error("it did not answer in time"));
  }
}

export async function checkHealth(socketPath: string, signal: AbortSignal): Promise<void> {
  const outgoing = request({ socketPath, path: "/healthz", agent: false, signal });
  const [response] = (await once(outgoing.end(), "response")) as [IncomingMessage];
  response.resume();
  if (response.statusCode !== 200) throw new Error(`status ${String(response.statusCode)}`);
}
