// SPDX-License-Identifier: Apache-2.0
// Where does each thing of the rack stand, in pixels? All of it is computed, so that of many units only those that are
// seen have to be drawn. Pure.

/** Sizes, pixels. */
export const SIZE = {
  /** From a unit's top to its first row of sockets. */
  head: 46,
  /** A plug, with the gap behind it. */
  plugWidth: 148,
  plugHeight: 86,
  gap: 10,
  /** Below the sockets, where cables run to the side. */
  tray: 20,
  /** Left of the first socket. */
  ear: 22,
  /** Between units. */
  between: 14,
} as const;

/** Where a unit stands. */
export interface Place {
  readonly key: string;
  readonly top: number;
  readonly height: number;
  /** How many sockets stand in one row. */
  readonly perRow: number;
}

/** Where everything stands. */
export interface Layout {
  readonly places: readonly Place[];
  readonly height: number;
}

/** What needs a place: a unit, with how many sockets are drawn of it. */
export interface Placed {
  readonly key: string;
  readonly sockets: number;
}

/** Rows of units, for a rack that is so wide. */
export function layoutOf(units: readonly Placed[], width: number): Layout {
  const room = width - 2 * SIZE.ear;
  const perRow = Math.max(1, Math.floor((room + SIZE.gap) / (SIZE.plugWidth + SIZE.gap)));
  let top = 0;
  const places = units.map((unit) => {
    const rows = Math.ceil(unit.sockets / perRow);
    const height = SIZE.head + rows * (SIZE.plugHeight + SIZE.gap) - SIZE.gap + SIZE.tray;
    const place = { key: unit.key, top, height, perRow };
    top += height + SIZE.between;
    return place;
  });
  return { places, height: Math.max(0, top - SIZE.between) };
}

/** From which place to which, the last not among them. */
export interface Range {
  readonly from: number;
  readonly to: number;
}

/** Drawn above and below what is seen, pixels: a scroll shows nothing empty. */
const OVERSCAN = 400;

/** The first place that ends below `y`. */
function firstBelow(places: readonly Place[], y: number): number {
  let [low, high] = [0, places.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    const place = places[middle];
    if (place !== undefined && place.top + place.height < y) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Those of the places that are seen, of a rack that is scrolled so far. */
export function seen({ places }: Layout, scrolled: number, height: number): Range {
  const from = firstBelow(places, scrolled - OVERSCAN);
  const end = firstBelow(places, scrolled + height + OVERSCAN);
  return { from, to: Math.min(places.length, end + 1) };
}

/** A point. */
export interface Point {
  readonly x: number;
  readonly y: number;
}

/** Where the socket of a number stands in its unit: its left upper corner. */
export function socketAt(place: Pick<Place, "perRow">, index: number): Point {
  const row = Math.floor(index / place.perRow);
  const column = index % place.perRow;
  return {
    x: SIZE.ear + column * (SIZE.plugWidth + SIZE.gap),
    y: SIZE.head + row * (SIZE.plugHeight + SIZE.gap),
  };
}

/** Where a cable leaves it: the middle of its lower edge. */
export function cableEnd(place: Place, index: number): Point {
  const { x, y } = socketAt(place, index);
  return { x: x + SIZE.plugWidth / 2, y: place.top + y + SIZE.plugHeight };
}
