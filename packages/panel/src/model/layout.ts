// SPDX-License-Identifier: Apache-2.0
// Positions in the rack, in pixels. They are computed, not measured, so that units outside the visible area need not be drawn.

export const SIZE = {
  socketsTop: 46,
  /** Width of a plug, without the gap after it. */
  plugWidth: 148,
  plugHeight: 86,
  gap: 10,
  /** Height of the space for cables below the sockets. */
  tray: 20,
  leftMargin: 22,
  between: 14,
} as const;

export interface Place {
  readonly key: string;
  readonly top: number;
  readonly height: number;
  readonly perRow: number;
}

export interface Layout {
  readonly places: readonly Place[];
  readonly height: number;
}

export interface Placed {
  readonly key: string;
  readonly sockets: number;
}

export function computeLayout(units: readonly Placed[], width: number): Layout {
  const innerWidth = width - 2 * SIZE.leftMargin;
  const perRow = Math.max(1, Math.floor((innerWidth + SIZE.gap) / (SIZE.plugWidth + SIZE.gap)));
  let top = 0;
  const places = units.map((unit) => {
    const rows = Math.ceil(unit.sockets / perRow);
    const height = SIZE.socketsTop + rows * (SIZE.plugHeight + SIZE.gap) - SIZE.gap + SIZE.tray;
    const place = { key: unit.key, top, height, perRow };
    top += height + SIZE.between;
    return place;
  });
  return { places, height: Math.max(0, top - SIZE.between) };
}

export interface IndexRange {
  readonly from: number;
  readonly to: number;
}

/** Height of the areas drawn above and below the visible area, so that scrolling shows no gaps. */
const OVERSCAN = 400;

function findFirstBelow(places: readonly Place[], y: number): number {
  let [low, high] = [0, places.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    const place = places[middle];
    if (place !== undefined && place.top + place.height < y) low = middle + 1;
    else high = middle;
  }
  return low;
}

export function visibleRange({ places }: Layout, scrolled: number, height: number): IndexRange {
  const from = findFirstBelow(places, scrolled - OVERSCAN);
  const end = findFirstBelow(places, scrolled + height + OVERSCAN);
  return { from, to: Math.min(places.length, end + 1) };
}

export interface Point {
  readonly x: number;
  readonly y: number;
}

export function socketPosition(place: Pick<Place, "perRow">, index: number): Point {
  const row = Math.floor(index / place.perRow);
  const column = index % place.perRow;
  return {
    x: SIZE.leftMargin + column * (SIZE.plugWidth + SIZE.gap),
    y: SIZE.socketsTop + row * (SIZE.plugHeight + SIZE.gap),
  };
}

export function cableEnd(place: Place, index: number): Point {
  const { x, y } = socketPosition(place, index);
  return { x: x + SIZE.plugWidth / 2, y: place.top + y + SIZE.plugHeight };
}
