// SPDX-License-Identifier: Apache-2.0
// Certificates of a machine that is up for long: once a day those that end soon are made anew, and whoever was started
// before the newest of them is started again, one after the other.
import { messageOf } from "@patchbay/core";
import type { Clock, Logger } from "@patchbay/core/ports";

const DAY_MS = 24 * 3_600_000;

/** What is to be started again. */
export interface Outdated {
  readonly name: string;
  /** When its process was started, milliseconds since 1970; undefined: it does not run, and will read what is there. */
  startedAtMs(): Promise<number | undefined>;
  /** Ends it, and resolves when it is ready again. */
  restart(): Promise<void>;
}

/** What a renewal works with. */
export interface RenewalDeps {
  readonly clock: Clock;
  readonly log: Logger;
  /** Makes what ends soon. */
  readonly renew: () => Promise<void>;
  /** Since when the newest certificate holds, milliseconds since 1970: a while before it was made. */
  readonly newestMs: () => Promise<number>;
  /** In the order in which they are started again. */
  readonly services: () => readonly Outdated[];
  /** After a restart: tells the API server of an authority that may be another one. */
  readonly announce: () => Promise<void>;
}

/** Looks at certificates, and at who has not read them. */
export class Renewal {
  readonly #deps: RenewalDeps;
  /** Services were started again since the last announcement that worked. */
  #isOwed = false;

  constructor(deps: RenewalDeps) {
    this.#deps = deps;
  }

  /** One look, which goes no further once it is aborted. Throws the first failure when all has been tried. */
  async look(signal: AbortSignal): Promise<void> {
    const { services, announce } = this.#deps;
    const sinceMs = await this.#renew();
    const failures: unknown[] = [];
    for (const service of services()) {
      if (signal.aborted) return;
      await this.#restart(service, sinceMs).catch((error: unknown) => failures.push(error));
    }
    if (this.#isOwed && !signal.aborted) {
      await announce();
      this.#isOwed = false;
    }
    if (failures.length > 0) throw failures[0];
  }

  /** Who was started before then, milliseconds since 1970, has certificates of before. */
  async #renew(): Promise<number> {
    const { clock, renew, newestMs } = this.#deps;
    const beforeMs = await newestMs();
    await renew();
    const afterMs = await newestMs();
    return afterMs > beforeMs ? clock.now() : afterMs;
  }

  async #restart(service: Outdated, sinceMs: number): Promise<void> {
    const startedAtMs = await service.startedAtMs();
    if (startedAtMs === undefined || startedAtMs >= sinceMs) return;
    this.#deps.log.info("restarting a service whose certificates were renewed", {
      object: service.name,
    });
    this.#isOwed = true;
    await service.restart();
  }
}

/** Looks at once, for certificates may have been made while what runs was adopted, and then daily until aborted. */
export async function renewDaily(deps: RenewalDeps, signal: AbortSignal): Promise<void> {
  const renewal = new Renewal(deps);
  while (!signal.aborted) {
    try {
      await renewal.look(signal);
    } catch (error) {
      deps.log.error("not all certificates could be renewed; the next try is tomorrow", {
        reason: messageOf(error),
        err: error,
      });
    }
    await deps.clock.sleep(DAY_MS, signal).catch(() => undefined); // aborted: the loop sees it
  }
}
