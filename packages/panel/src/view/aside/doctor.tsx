// SPDX-License-Identifier: Apache-2.0
// At which hop do frames of a NIC die? Asked when a person wants to know.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { DoctorReport, HopReport } from "@patchbay/core";
import { readWay } from "../../browser/ask.ts";
import type { Session } from "../../browser/session.ts";
import type { Unit } from "../../model/unit.ts";
import { Action } from "./parts.tsx";

interface DoctorProps {
  readonly session: Session;
  readonly unit: Unit;
  readonly iface: string;
}

/** A report, why there is none, or that it is waited for. */
type Seen = DoctorReport | { readonly refused: string } | "asking" | undefined;

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

function Report({ seen }: { readonly seen: Seen }): JSX.Element | null {
  if (seen === undefined) return null;
  if (seen === "asking") return <p class="hint">Looking; it takes at most five seconds.</p>;
  if ("refused" in seen) {
    return (
      <p class="hint">
        <bdi>{seen.refused}</bdi>
      </p>
    );
  }
  const { firstDead, hops } = seen;
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

/** A button, and what came of it. */
export function Doctor({ session, unit, iface }: DoctorProps): JSX.Element {
  const [seen, setSeen] = useState<Seen>(undefined);
  useEffect(() => {
    setSeen(undefined);
  }, [unit.key, iface]);
  const look = async (): Promise<void> => {
    setSeen("asking");
    setSeen(await readWay(session, unit, iface));
  };
  return (
    <>
      <div class="buttons">
        <Action label="Where do frames die?" onAction={() => void look()} />
      </div>
      <Report seen={seen} />
    </>
  );
}
