// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { Places } from "./places.ts";

test("as much is done at once as there are places, in the order of asking, whatever fails", async () => {
  const places = new Places(2);
  const begun: number[] = [];
  const ends = Array.from({ length: 5 }, () => Promise.withResolvers<number>());
  const works = ends.map(({ promise }, index) =>
    places.use(() => {
      begun.push(index);
      return promise;
    }),
  );
  const settled = Promise.allSettled(works);
  expect(begun).toEqual([0, 1]);
  ends[1]?.reject(new Error("failed"));
  await expect(works[1]).rejects.toThrow("failed");
  expect(begun).toEqual([0, 1, 2]);
  for (const [index, { resolve }] of ends.entries()) resolve(index);
  await settled;
  expect(begun).toEqual([0, 1, 2, 3, 4]);
  expect(await places.use(() => Promise.resolve("free"))).toBe("free");
});
