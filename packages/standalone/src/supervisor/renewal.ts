// SPDX-License-Identifier: Apache-2.0
// Certificates of a machine that is up for long: once a day those that end soon are made anew, and whoever was started
// before the newest of them is started again, one after the other.
import { messageOf } from "@patchbay/core";
import type { Clock, Logger } from "@patchbay/ports";

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
  /** Makes what ends soon; since when the newest certificate holds, milliseconds since 1970. */
  readonly renew: () => Promise<number>;
  /** In the order in which they are started again. */
  readonly services: () => readonly Outdated[];
  /** After a restart: tells the API server of an authority that may be another one. */
  readonly announce: () => Promise<void>;
}

/** One look. */
export async function renewOnce({ log, renew, services, announce }: RenewalDeps): Promise<void> {
  const newestMs = await renew();
  let count = 0;
  for (const service of services()) {
    const startedAtMs = await service.startedAtMs();
    if (startedAtMs === undefined || startedAtMs >= newestMs) continue;
    log.info("certificates are newer than a service, which is started again", {
      object: service.name,
    });
    await service.restart();
    count += 1;
  }
  if (count > 0) await announce();
}

/** Looks at once, for certificates may have been made while what runs was adopted, and then daily until aborted. */
export async function renewDaily(deps: RenewalDeps, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    try {
      await renewOnce(deps);
    } catch (error) {
      deps.log.error("certificates cannot be renewed; it is tried again tomorrow", {
        reason: messageOf(error),
        err: error,
      });
    }
    await deps.clock.sleep(DAY_MS, signal).catch(() => undefined); // aborted: the loop sees it
  }
}
