// SPDX-License-Identifier: Apache-2.0
// What goes through a NIC, while its details are looked at.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { readTraffic } from "../../browser/ask.ts";
import { nowMs, pause } from "../../browser/clock.ts";
import type { Session } from "../../browser/session.ts";
import { curveOf, printRate, ratesOf, withSample, type Sample } from "../../model/nic/traffic.ts";

/** Counters are read anew at most once a second; milliseconds. */
const EVERY_MS = 2000;

function endable(): { readonly signal: AbortSignal; readonly abort: () => void } {
  const controller = new AbortController();
  const abort = (): void => {
    controller.abort();
  };
  return { signal: controller.signal, abort };
}

function useSamples(session: Session, key: string): readonly Sample[] {
  const [samples, setSamples] = useState<readonly Sample[]>([]);
  useEffect(() => {
    const { signal, abort } = endable();
    const follow = async (): Promise<void> => {
      while (!signal.aborted) {
        const counters = (await readTraffic(session))[key];
        if (counters !== undefined) {
          const sample = { atMs: nowMs(), counters };
          setSamples((known) => withSample(known, sample));
        }
        await pause(EVERY_MS);
      }
    };
    setSamples([]);
    void follow();
    return abort;
  }, [session, key]);
  return samples;
}

/** Two curves and their last values; nothing until there are two samples. */
export function Traffic({
  session,
  id,
}: {
  readonly session: Session;
  readonly id: string;
}): JSX.Element | null {
  const rates = ratesOf(useSamples(session, id));
  const last = rates.at(-1);
  if (last === undefined) return null;
  return (
    <figure class="traffic">
      <svg viewBox="0 0 100 30" preserveAspectRatio="none" aria-hidden="true">
        <path class="received" d={curveOf(rates, 0)} />
        <path class="sent" d={curveOf(rates, 1)} />
      </svg>
      <figcaption>
        <span class="received-word">received {printRate(last[0])}</span>
        <span class="sent-word">sent {printRate(last[1])}</span>
      </figcaption>
    </figure>
  );
}
