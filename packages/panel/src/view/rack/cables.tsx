// SPDX-License-Identifier: Apache-2.0
import type { JSX } from "preact";
import { computeTrayDepth, cablePath } from "../../model/cables.ts";
import type { Jack } from "../../model/jacks.ts";
import { cableEnd, SIZE, type Place, type Point } from "../../model/layout.ts";
import { JACK } from "./jacks.tsx";
import type { DrawnPlug } from "./unit.tsx";

export interface CableSpace {
  readonly jacks: ReadonlyMap<string, { readonly jack: Jack; readonly index: number }>;
  /** Scroll positions of the rack (`scrolled`) and of the networks (`jacksScrolled`), in pixels. */
  readonly scrolled: number;
  readonly jacksScrolled: number;
  readonly height: number;
  readonly rackEdgeX: number;
  readonly jackX: number;
}

export interface CabledUnit {
  readonly place: Place;
  readonly drawn: readonly DrawnPlug[];
  readonly selectedIface: string | undefined;
}

/** Returns the point where a jack's cables end. If the jack is scrolled out of view, returns the nearest visible point. */
function jackPoint(index: number, space: CableSpace): Point {
  const y = JACK.firstTop + index * JACK.height + JACK.hole.y - space.jacksScrolled;
  const visible = Math.min(Math.max(y, JACK.firstTop - 4), space.height - 4);
  return { x: space.jackX, y: space.scrolled + visible };
}

/** Returns the height of the rows below a plug. The plug's cable runs past these rows. */
function heightBelow(place: Place, index: number, count: number): number {
  const rows = Math.ceil((count + 1) / place.perRow);
  const row = Math.floor(index / place.perRow);
  return (rows - 1 - row) * (SIZE.plugHeight + SIZE.gap);
}

function drawCables(unit: CabledUnit, space: CableSpace): readonly JSX.Element[] {
  const { place, drawn, selectedIface } = unit;
  return drawn.flatMap(({ plug, mark }, index) => {
    const end = space.jacks.get(plug.network);
    if (end === undefined || mark === "pulled") return [];
    const from = cableEnd(place, index);
    const trayDepth = computeTrayDepth(index, heightBelow(place, index, drawn.length));
    const hasBelow = trayDepth > SIZE.plugHeight;
    const gapX = hasBelow ? from.x + (SIZE.plugWidth + SIZE.gap) / 2 : undefined;
    const d = cablePath({
      from,
      trayDepth,
      gapX,
      rackEdgeX: space.rackEdgeX,
      to: jackPoint(end.index, space),
    });
    const tone = mark === undefined ? `run-${plug.tone}` : "run-pending";
    const isBright = selectedIface === plug.name;
    const classes = `cable cable-${String(end.jack.color)} ${tone} ${isBright ? "bright" : ""}`;
    return [<path key={`${place.key}/${plug.name}`} d={d} class={classes} />];
  });
}

export interface LooseCable {
  readonly from: Point;
  readonly to: Point;
}

interface CablesProps {
  readonly units: readonly CabledUnit[];
  readonly space: CableSpace;
  readonly loose: LooseCable | undefined;
  readonly total: number;
}

/** Draws the cables. Screen readers skip the drawing, because each plug's label already names its network. */
export function Cables({ units, space, loose, total }: CablesProps): JSX.Element {
  const isDimmed = units.some(({ selectedIface }) => selectedIface !== undefined);
  return (
    <svg
      class={`cables ${isDimmed ? "dimmed" : ""}`}
      aria-hidden="true"
      style={{ height: `${String(total)}px` }}
    >
      {units.flatMap((unit) => drawCables(unit, space))}
      {loose === undefined ? null : (
        <path
          class="cable loose"
          d={`M${String(loose.from.x)} ${String(loose.from.y)}L${String(loose.to.x)} ${String(loose.to.y)}`}
        />
      )}
    </svg>
  );
}
