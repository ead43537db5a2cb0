// SPDX-License-Identifier: Apache-2.0
// Series of pings, and how many of them are seen at each link.
import type { HopName, LossCount, ProbeName } from "@patchbay/core";
import type { HeardFrames } from "@patchbay/core/ports";
import { passes } from "./frames.ts";
import type { Probe } from "./probes.ts";

const COUNTED: readonly LossCount["probe"][] = ["ping", "echo"];

type Counts = Partial<Record<HopName, number>>;

function count(hops: readonly HopName[], sent: number): Counts {
  const counts: Counts = {};
  // A frame may be seen twice at one link.
  for (const hop of hops) counts[hop] = Math.min(sent, (counts[hop] ?? 0) + 1);
  return counts;
}

/** The counts of one series of each kind. */
export function countSeries(
  probes: readonly Probe[],
  hops: readonly (HopName | undefined)[],
  { frames }: Pick<HeardFrames, "frames">,
): readonly LossCount[] {
  return COUNTED.flatMap((probe) => {
    const own = probes.filter((each) => each.probe === (probe satisfies ProbeName));
    if (own.length === 0) return [];
    const seen = (what: "asked" | "answered"): readonly HopName[] =>
      own.flatMap(({ question }) => {
        const found = frames.filter(({ frame }) => passes(frame, question[what]));
        return [...new Set(found.flatMap(({ port }) => hops[port] ?? []))];
      });
    const sent = own.length;
    const [asked, answered] = [count(seen("asked"), sent), count(seen("answered"), sent)];
    return [{ probe, sent, asked, answered }];
  });
}

/** Whether all of a series were answered where they were sent. */
export function isWholeSeries({ sent, answered }: LossCount): boolean {
  return (
    Math.max(0, ...Object.values(answered)) === sent &&
    Object.values(answered).every((each) => each === sent)
  );
}

function addCounts(a: Counts, b: Counts): Counts {
  const hops = [...Object.keys(a), ...Object.keys(b)] as readonly HopName[];
  return Object.fromEntries(hops.map((hop) => [hop, (a[hop] ?? 0) + (b[hop] ?? 0)]));
}

/** Two rounds of series as one. */
export function addSeries(
  first: readonly LossCount[],
  second: readonly LossCount[],
): readonly LossCount[] {
  return first.map((each) => {
    const more = second.find(({ probe }) => probe === each.probe);
    if (more === undefined) return each;
    return {
      probe: each.probe,
      sent: each.sent + more.sent,
      asked: addCounts(each.asked, more.asked),
      answered: addCounts(each.answered, more.answered),
    };
  });
}
