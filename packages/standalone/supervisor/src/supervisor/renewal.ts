// SPDX-License-Identifier: Apache-2.0
// Daily renewal of certificates. Services that started before the newest certificate are restarted one by one.
import { messageOf, type Clock, type Logger } from "@patchbay/base";

const RENEWAL_INTERVAL_MS = 24 * 3_600_000;

export interface RestartableService {
  readonly name: string;
  /** Milliseconds since 1970; a process that does not run will load the new certificates at its start. */
  startedAtMs(): Promise<number | undefined>;
  restart(): Promise<void>;
}

export interface RenewalDeps {
  readonly clock: Clock;
  readonly log: Logger;
  readonly renew: () => Promise<void>;
  /** Milliseconds since 1970; slightly before the newest certificate's creation. */
  readonly newestMs: () => Promise<number>;
  /** In the order of their restart. */
  readonly services: () => readonly RestartableService[];
  /** Updates the authority in the API server. */
  readonly announce: () => Promise<void>;
}

export class Renewal {
  readonly #deps: RenewalDeps;
  #isAnnouncementDue = false;

  constructor(deps: RenewalDeps) {
    this.#deps = deps;
  }

  /** Throws the first failure after everything was tried. */
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

  /** Services that started before this time need a restart, milliseconds since 1970. */
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

/** Runs at once, because certificates may have been renewed while components were adopted, and then daily. */
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
