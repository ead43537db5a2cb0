// SPDX-License-Identifier: Apache-2.0
// Paths of cables from a plug to a jack: down into the unit's tray, along it, and across. Pure.
import type { Point } from "./layout.ts";

/** Radius of corners, pixels. */
const BEND = 9;

export interface CableRun {
  readonly from: Point;
  /** Vertical distance from the plug to the cable in the tray; it differs, so that cables do not overlap. */
  readonly drop: number;
  /** For a plug with others below it: x of the gap between them. */
  readonly pass: number | undefined;
  /** Right edge of the rack. */
  readonly edge: number;
  readonly to: Point;
}

/** Vertical distance from the plug to the middle of the gap below. */
const GAP_MIDDLE = 5;

/** Distance for the cable with that index; `rows`: height of the rows below. */
export function cableDrop(index: number, rows: number): number {
  return rows + 5 + (index % 4) * 4;
}

function joinPath(...words: readonly (string | number)[]): string {
  return words.map(String).join(" ");
}

/** Straight down into the tray, or around the plugs below. */
function pathDown({ from, pass, drop }: CableRun): string {
  const along = from.y + drop;
  const bend = Math.min(BEND, drop);
  if (pass === undefined) {
    return `${joinPath("V", along - bend)} ${joinPath("Q", from.x, along, from.x + bend, along)}`;
  }
  const turn = from.y + GAP_MIDDLE;
  return [
    joinPath("V", turn, "H", pass - GAP_MIDDLE, "Q", pass, turn, pass, turn + GAP_MIDDLE),
    joinPath("V", along - bend, "Q", pass, along, pass + bend, along),
  ].join(" ");
}

export function cablePath(run: CableRun): string {
  const { from, drop, edge, to } = run;
  const along = from.y + drop;
  const middle = (edge + to.x) / 2;
  const over = joinPath("C", middle, along, middle, to.y, to.x, to.y);
  return `${joinPath("M", from.x, from.y)} ${pathDown(run)} ${joinPath("H", edge)} ${over}`;
}
