// SPDX-License-Identifier: Apache-2.0
// What goes through a NIC, while its details are looked at.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { readTraffic } from "../../browser/ask.ts";
import { nowMs, pause } from "../../browser/clock.ts";
import type { Session } from "../../browser/session.ts";
import type { Unit } from "../../model/unit.ts";
import { curveOf, printRate, ratesOf, withSample, type Sample } from "../../model/nic/traffic.ts";

/** How often a node is asked, milliseconds. */
const EVERY_MS = 2000;

function endable(): { readonly signal: AbortSignal; readonly abort: () => void } {
  const controller = new AbortController();
  const abort = (): void => {
    controller.abort();
  };
  return { signal: controller.signal, abort };
}

interface TrafficProps {
  readonly session: Session;
  readonly unit: Unit;
  readonly iface: string;
}

function useSamples({ session, unit, iface }: TrafficProps): readonly Sample[] {
  const { namespace, name } = unit;
  const [samples, setSamples] = useState<readonly Sample[]>([]);
  useEffect(() => {
    const { signal, abort } = endable();
    const follow = async (): Promise<void> => {
      while (!signal.aborted) {
        const counters = await readTraffic(session, { namespace, name }, iface);
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
  }, [session, namespace, name, iface]);
  return samples;
}

/** Two curves and their last values; nothing until there are two samples. */
export function Traffic(props: TrafficProps): JSX.Element | null {
  const rates = ratesOf(useSamples(props));
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
