// SPDX-License-Identifier: Apache-2.0
// Daily renewal of certificates. Services that started before the newest certificate are restarted one by one.
import { messageOf, type Clock, type Logger } from "@patchbay/base";

const RENEWAL_INTERVAL_MS = 24 * 3_600_000;

export interface RestartableService {
  readonly name: string;
  /** Returns milliseconds since 1970; undefined if the service does not run and will load certificates at its start. */
  startedAtMs(): Promise<number | undefined>;
  restart(): Promise<void>;
}

export interface RenewalDeps {
  readonly clock: Clock;
  readonly log: Logger;
  readonly renew: () => Promise<void>;
  /** Returns when the newest certificate became valid, slightly before its creation, in milliseconds since 1970. */
  readonly newestMs: () => Promise<number>;
  /** Returns the services in the order of their restart. */
  readonly services: () => readonly RestartableService[];
  /** Writes the new authority into the API server. */
  readonly announce: () => Promise<void>;
}

export class Renewal {
  readonly #deps: RenewalDeps;
  #isAnnouncementDue = false;

  constructor(deps: RenewalDeps) {
    this.#deps = deps;
  }

  /** Renews certificates and restarts services. Tries all before it throws the first failure. */
  async renewAndRestart(signal: AbortSignal): Promise<void> {
    const { services, announce } = this.#deps;
    const sinceMs = await this.#renew();
    const failures: unknown[] = [];
    for (const service of services()) {
      if (signal.aborted) return;
      await this.#restart(service, sinceMs).catch((error: unknown) => failures.push(error));
    }
    if (this.#isAnnouncementDue && !signal.aborted) {
      await announce();
      this.#isAnnouncementDue = false;
    }
    if (failures.length > 0) throw failures[0];
  }

  /** Renews certificates. Returns the time, in milliseconds since 1970, before which a service to restart was started. */
  async #renew(): Promise<number> {
    const { clock, renew, newestMs } = this.#deps;
    const beforeMs = await newestMs();
    await renew();
    const afterMs = await newestMs();
    return afterMs > beforeMs ? clock.now() : afterMs;
  }

  async #restart(service: RestartableService, sinceMs: number): Promise<void> {
    const startedAtMs = await service.startedAtMs();
    if (startedAtMs === undefined || startedAtMs >= sinceMs) return;
    this.#deps.log.info("restarting a service whose certificates were renewed", {
      object: service.name,
    });
    this.#isAnnouncementDue = true;
    await service.restart();
  }
}

/** Renews at once and then daily. The start of this process may have renewed certificates of adopted components. */
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
