// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { CallSlots } from "./guest-hooks.ts";

/** Work that ends on request. */
function begin(slots: CallSlots, namespace: string): { isBegun: boolean; end: () => void } {
  const { promise, resolve } = Promise.withResolvers<undefined>();
  const work = {
    isBegun: false,
    end: (): void => {
      resolve(undefined);
    },
  };
  void slots.run(namespace, () => {
    work.isBegun = true;
    return promise;
  });
  return work;
}

const settled = (): Promise<unknown> => new Promise((resolve) => setImmediate(resolve));

test("runs two calls of a namespace at a time, without blocking other namespaces", async () => {
  const slots = new CallSlots();
  const hostile = Array.from({ length: 5 }, () => begin(slots, "hostile"));
  const other = begin(slots, "other");
  await settled();
  expect(hostile.map(({ isBegun }) => isBegun)).toEqual([true, true, false, false, false]);
  expect(other.isBegun).toBe(true);
  hostile[0]?.end();
  await settled();
  expect(hostile[2]?.isBegun).toBe(true);
});

test("runs eight calls of the node at a time", async () => {
  const slots = new CallSlots();
  const works = Array.from({ length: 9 }, (_unused, index) => begin(slots, String(index)));
  await settled();
  expect(works.filter(({ isBegun }) => isBegun)).toHaveLength(8);
  works[3]?.end();
  await settled();
  expect(works[8]?.isBegun).toBe(true);
});

test("frees the slot of a failed call", async () => {
  const slots = new CallSlots();
  const fail = (): Promise<never> => Promise.reject(new Error("no"));
  for (let index = 0; index < 3; index += 1) {
    await expect(slots.run("one", fail)).rejects.toThrow("no");
  }
});
