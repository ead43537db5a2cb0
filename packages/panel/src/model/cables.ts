// SPDX-License-Identifier: Apache-2.0
// How does a cable run from a plug to a jack? Down into the unit's tray, along it, and over to the other side. Pure.
import type { Point } from "./layout.ts";

/** A corner's radius, pixels. */
const BEND = 9;

/** Where it runs. */
export interface Run {
  readonly from: Point;
  /** How far below its plug the tray is where this cable lies, so that cables do not cover one another. */
  readonly drop: number;
  /** Of a plug with others below it: where it passes between them. */
  readonly pass: number | undefined;
  /** The rack's right edge. */
  readonly edge: number;
  readonly to: Point;
}

/** Below its plug, the middle of the space between two rows. */
const TURN = 5;

/** Below its plug, for the cable of a number among so many: they lie side by side. */
export function dropOf(index: number, rows: number): number {
  return rows + 5 + (index % 4) * 4;
}

function say(...words: readonly (string | number)[]): string {
  return words.map(String).join(" ");
}

/** Straight down into the tray, or around what is below. */
function down({ from, pass, drop }: Run): string {
  const along = from.y + drop;
  const bend = Math.min(BEND, drop);
  if (pass === undefined) {
    return `${say("V", along - bend)} ${say("Q", from.x, along, from.x + bend, along)}`;
  }
  const turn = from.y + TURN;
  return [
    say("V", turn, "H", pass - TURN, "Q", pass, turn, pass, turn + TURN),
    say("V", along - bend, "Q", pass, along, pass + bend, along),
  ].join(" ");
}

/** The path, as SVG writes it. */
export function pathOf(run: Run): string {
  const { from, drop, edge, to } = run;
  const along = from.y + drop;
  const middle = (edge + to.x) / 2;
  const over = say("C", middle, along, middle, to.y, to.x, to.y);
  return `${say("M", from.x, from.y)} ${down(run)} ${say("H", edge)} ${over}`;
}
