// SPDX-License-Identifier: Apache-2.0
// Cable paths from a plug down into the unit's tray, along it, and to the jack.
import type { Point } from "./layout.ts";

const BEND_RADIUS = 9;

export interface CableRun {
  readonly from: Point;
  /** Vertical distance from plug to cable, different between neighboring cables, so that they do not overlap. */
  readonly trayDepth: number;
  /** X coordinate of the gap between plugs of rows below; undefined without rows below. */
  readonly gapX: number | undefined;
  /** X coordinate of the right edge of the rack. */
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

/** Returns the path into the tray, through the gap at `gapX` or straight if undefined. */
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
