// SPDX-License-Identifier: Apache-2.0
// Renews certificates daily. Then restarts, one by one, the services that have not loaded the newest certificate.
import { messageOf, type Clock, type Logger } from "@patchbay/base";

const RENEWAL_INTERVAL_MS = 24 * 3_600_000;

export interface RestartableService {
  readonly name: string;
  /** Returns the start time in milliseconds since 1970; undefined if the service does not run. */
  startedAtMs(): Promise<number | undefined>;
  restart(): Promise<void>;
}

export interface RenewalDeps {
  readonly clock: Clock;
  readonly log: Logger;
  readonly renew: () => Promise<void>;
  /** Returns the time at which the newest certificate became valid, in milliseconds since 1970. */
  readonly readNewestValidityStartMs: () => Promise<number>;
  /** Returns the services in the order in which they are restarted. */
  readonly listServices: () => readonly RestartableService[];
  /** Writes the current CA certificate into virt-api's APIServices and webhooks. */
  readonly announce: () => Promise<void>;
}

export class Renewal {
  readonly #deps: RenewalDeps;
  #isAnnouncementDue = false;

  constructor(deps: RenewalDeps) {
    this.#deps = deps;
  }

  /** Renews certificates, restarts outdated services, and announces the CA to the API server. Then throws the error of a failed restart. */
  async renewAndRestart(signal: AbortSignal): Promise<void> {
    const { listServices, announce } = this.#deps;
    const renewedAtMs = await this.#renew();
    const failures: unknown[] = [];
    for (const service of listServices()) {
      if (signal.aborted) return;
      await this.#restart(service, renewedAtMs).catch((error: unknown) => failures.push(error));
    }
    if (this.#isAnnouncementDue && !signal.aborted) {
      await announce();
      this.#isAnnouncementDue = false;
    }
    if (failures.length > 0) throw failures[0];
  }

  /** Renews certificates. Returns a time in milliseconds since 1970; services that started earlier must restart. */
  async #renew(): Promise<number> {
    const { clock, renew, readNewestValidityStartMs } = this.#deps;
    const previousValidityStartMs = await readNewestValidityStartMs();
    await renew();
    const newValidityStartMs = await readNewestValidityStartMs();
    return newValidityStartMs > previousValidityStartMs ? clock.now() : newValidityStartMs;
  }

  async #restart(service: RestartableService, renewedAtMs: number): Promise<void> {
    const startedAtMs = await service.startedAtMs();
    if (startedAtMs === undefined || startedAtMs >= renewedAtMs) return;
    this.#deps.log.info("restarting a service whose certificates were renewed", {
      object: service.name,
    });
    this.#isAnnouncementDue = true;
    await service.restart();
  }
}

/** Renews certificates daily. Begins at once, because components that an earlier supervisor started may still use old certificates. */
export async function renewDaily(deps: RenewalDeps, signal: AbortSignal): Promise<void> {
  const renewal = new Renewal(deps);
  while (!signal.aborted) {
    try {
      await renewal.renewAndRestart(signal);
    } catch (error) {
      deps.log.error("certificates cannot be renewed; retrying in a day", {
        reason: messageOf(error),
        err: error,
      });
    }
    await deps.clock.sleep(RENEWAL_INTERVAL_MS, signal).catch(() => undefined);
  }
}
