// SPDX-License-Identifier: Apache-2.0
// Paths of cables from a plug to a jack: down into the unit's tray, along the tray, and across to the jack.
import type { Point } from "./layout.ts";

const BEND_RADIUS = 9;

export interface CableRun {
  readonly from: Point;
  /** Vertical distance from the plug to the cable in the tray. It differs between neighboring cables, so that they do not overlap. */
  readonly trayDepth: number;
  /** X coordinate of the gap between the plugs in the rows below; undefined if there is no row below. */
  readonly gapX: number | undefined;
  readonly rackEdgeX: number;
  readonly to: Point;
}

/** Vertical distance from the plug to the middle of the gap below. */
const GAP_MIDDLE = 5;

export function computeTrayDepth(index: number, heightBelow: number): number {
  return heightBelow + 5 + (index % 4) * 4;
}

function joinPath(...words: readonly (string | number)[]): string {
  return words.map(String).join(" ");
}

/** Returns the path down into the tray: through the gap between the plugs if there is a row below, otherwise straight. */
function pathDown({ from, gapX, trayDepth }: CableRun): string {
  const along = from.y + trayDepth;
  const bend = Math.min(BEND_RADIUS, trayDepth);
  if (gapX === undefined) {
    return `${joinPath("V", along - bend)} ${joinPath("Q", from.x, along, from.x + bend, along)}`;
  }
  const turn = from.y + GAP_MIDDLE;
  return [
    joinPath("V", turn, "H", gapX - GAP_MIDDLE, "Q", gapX, turn, gapX, turn + GAP_MIDDLE),
    joinPath("V", along - bend, "Q", gapX, along, gapX + bend, along),
  ].join(" ");
}

export function cablePath(run: CableRun): string {
  const { from, trayDepth, rackEdgeX, to } = run;
  const along = from.y + trayDepth;
  const middle = (rackEdgeX + to.x) / 2;
  const over = joinPath("C", middle, along, middle, to.y, to.x, to.y);
  return `${joinPath("M", from.x, from.y)} ${pathDown(run)} ${joinPath("H", rackEdgeX)} ${over}`;
}
