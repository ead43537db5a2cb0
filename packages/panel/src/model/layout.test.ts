// SPDX-License-Identifier: Apache-2.0
import fc from "fast-check";
import { expect, test } from "vitest";
import { computeTrayDepth, cablePath } from "./cables.ts";
import { cableEnd, computeLayout, visibleRange, SIZE, socketPosition } from "./layout.ts";

const units = (...sockets: readonly number[]) =>
  sockets.map((count, index) => ({ key: `u${String(index)}`, sockets: count }));

test.each([
  { name: "uses one row if the width allows it", width: 700, sockets: 4, rows: 1 },
  { name: "uses a second row otherwise", width: 700, sockets: 5, rows: 2 },
  { name: "places one element per row on a narrow screen", width: 50, sockets: 3, rows: 3 },
])("$name", ({ width, sockets, rows }) => {
  const { places, height } = computeLayout(units(sockets), width);
  expect(height).toBe(SIZE.socketsTop + rows * SIZE.plugHeight + (rows - 1) * SIZE.gap + SIZE.tray);
  expect(places[0]?.top).toBe(0);
});

test("units do not overlap, and each visible unit is drawn", () => {
  const shape = fc.record({
    sockets: fc.array(fc.integer({ min: 1, max: 40 }), { maxLength: 60 }),
    width: fc.integer({ min: 10, max: 3000 }),
    scrolled: fc.integer({ min: 0, max: 20_000 }),
  });
  fc.assert(
    fc.property(shape, ({ sockets, width, scrolled }) => {
      const layout = computeLayout(units(...sockets), width);
      const { from, to } = visibleRange(layout, scrolled, 800);
      layout.places.forEach((place, index) => {
        const next = layout.places[index + 1];
        expect(next === undefined || next.top >= place.top + place.height).toBe(true);
        const isVisible = place.top < scrolled + 800 && place.top + place.height > scrolled;
        expect(!isVisible || (index >= from && index < to)).toBe(true);
      });
    }),
  );
});

test("sockets form a grid; cables start at the middle of the lower edge", () => {
  const place = { key: "a", top: 100, height: 200, perRow: 2 };
  expect([0, 1, 2].map((index) => socketPosition(place, index))).toEqual([
    { x: 22, y: 46 },
    { x: 180, y: 46 },
    { x: 22, y: 46 + SIZE.plugHeight + SIZE.gap },
  ]);
  expect(cableEnd(place, 1)).toEqual({ x: 180 + 74, y: 100 + 46 + SIZE.plugHeight });
});

test("cables do not overlap in the tray and pass between the plugs below", () => {
  expect([0, 1, 2, 3, 4].map((index) => computeTrayDepth(index, 0))).toEqual([5, 9, 13, 17, 5]);
  const run = { from: { x: 10, y: 20 }, rackEdgeX: 100, to: { x: 200, y: 50 } };
  expect(cablePath({ ...run, trayDepth: 9, gapX: undefined })).toBe(
    "M 10 20 V 20 Q 10 29 19 29 H 100 C 150 29 150 50 200 50",
  );
  expect(cablePath({ ...run, trayDepth: 81, gapX: 89 })).toBe(
    "M 10 20 V 25 H 84 Q 89 25 89 30 V 92 Q 89 101 98 101 H 100 C 150 101 150 50 200 50",
  );
});
