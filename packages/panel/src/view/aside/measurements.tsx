// SPDX-License-Identifier: Apache-2.0
import type { DoctorReport, HopReport } from "@patchbay/core/doctor";
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { readTraffic, readDoctorReport } from "../../browser/request.ts";
import type { Session } from "../../browser/session.ts";
import { nowMs, sleep } from "../../browser/timing.ts";
import {
  chartPath,
  printRate,
  computeRates,
  type Sample,
  withSample,
} from "../../model/nic/traffic.ts";
import type { Unit } from "../../model/unit.ts";
import { Action } from "./parts.tsx";

const SAMPLE_INTERVAL_MS = 2000;

function createAbort(): { readonly signal: AbortSignal; readonly abort: () => void } {
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
    const { signal, abort } = createAbort();
    const follow = async (): Promise<void> => {
      while (!signal.aborted) {
        const counters = await readTraffic(session, { namespace, name }, iface);
        if (counters !== undefined) {
          const sample = { atMs: nowMs(), counters };
          setSamples((known) => withSample(known, sample));
        }
        await sleep(SAMPLE_INTERVAL_MS);
      }
    };
    setSamples([]);
    void follow();
    return abort;
  }, [session, namespace, name, iface]);
  return samples;
}

export function Traffic(props: TrafficProps): JSX.Element | null {
  const rates = computeRates(useSamples(props));
  const last = rates.at(-1);
  if (last === undefined) return null;
  return (
    <figure class="traffic">
      <svg viewBox="0 0 100 30" preserveAspectRatio="none" aria-hidden="true">
        <path class="received" d={chartPath(rates, 0)} />
        <path class="sent" d={chartPath(rates, 1)} />
      </svg>
      <figcaption>
        <span class="received-word">received {printRate(last[0])}</span>
        <span class="sent-word">sent {printRate(last[1])}</span>
      </figcaption>
    </figure>
  );
}

interface DoctorProps {
  readonly session: Session;
  readonly unit: Unit;
  readonly iface: string;
}

type ReportState = DoctorReport | { readonly refused: string } | "asking" | undefined;

const MARKS: Readonly<Record<HopReport["state"], string>> = {
  ok: "✓",
  dead: "✗",
  unknown: "?",
  notApplicable: "·",
};

function Hop({ hop, name, state, why, fix }: HopReport): JSX.Element {
  return (
    <tr>
      <td aria-label={state}>{MARKS[state]}</td>
      <td>{hop}</td>
      <td>
        <bdi>{name === undefined ? why : `${name}: ${why}`}</bdi>
        {fix === undefined ? null : <p class="hint">{fix}</p>}
      </td>
    </tr>
  );
}

function Report({ report }: { readonly report: ReportState }): JSX.Element | null {
  if (report === undefined) return null;
  if (report === "asking") return <p class="hint">Checking; this takes at most five seconds.</p>;
  if ("refused" in report) {
    return (
      <p class="hint">
        <bdi>{report.refused}</bdi>
      </p>
    );
  }
  const { firstDead, hops } = report;
  return (
    <table class="steps doctor">
      <caption>{firstDead === undefined ? "No hop is dead" : `Frames die at ${firstDead}`}</caption>
      <tbody>
        {hops
          .filter(({ state }) => state !== "notApplicable")
          .map((hop) => (
            <Hop key={hop.hop} {...hop} />
          ))}
      </tbody>
    </table>
  );
}

export function Doctor({ session, unit, iface }: DoctorProps): JSX.Element {
  const [report, setReport] = useState<ReportState>(undefined);
  useEffect(() => {
    setReport(undefined);
  }, [unit.key, iface]);
  const examine = async (): Promise<void> => {
    setReport("asking");
    setReport(await readDoctorReport(session, unit, iface));
  };
  return (
    <>
      <div class="buttons">
        <Action label="Where do frames die?" onAction={() => void examine()} />
      </div>
      <Report report={report} />
    </>
  );
}
