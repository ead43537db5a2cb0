// SPDX-License-Identifier: Apache-2.0
// The processor time that a launcher's storm costs this process, which is what these attacks promise; measured in spans.
import { setTimeout as pass } from "node:timers/promises";

/** Length of a span, milliseconds. */
export const STORM_MS = 700;
/** How many spans are looked at: more than the least until one is calm. */
const SPANS = { least: 3, most: 15 };

/** What was seen in one. */
export interface Span {
  /** Processor time of this process, milliseconds. */
  readonly cpuMs: number;
  /** How often the loop was woken. */
  readonly woken: number;
}

/** A tenth of a core. */
function isCalm({ cpuMs }: Span): boolean {
  return cpuMs < STORM_MS / 10;
}

/**
 * What spans of the storm cost this process, in which the tests run too: the least is the storm's, and a busy machine shows it
 * late. `timesWoken`: how often until now.
 */
export async function lookAtSpans(timesWoken: () => number): Promise<readonly Span[]> {
  const spans: Span[] = [];
  while (spans.length < SPANS.least || (spans.length < SPANS.most && !spans.some(isCalm))) {
    const before = { woken: timesWoken(), cpu: process.cpuUsage() };
    await pass(STORM_MS);
    const { user, system } = process.cpuUsage(before.cpu);
    spans.push({ cpuMs: (user + system) / 1000, woken: timesWoken() - before.woken });
  }
  return spans;
}
