// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { findNicModel, countVectors } from "./interrupts.ts";

describe("the interrupt vectors of a NIC", () => {
  test.each([
    { model: "virtio", queues: 1, vectors: 3 },
    { model: "virtio-non-transitional", queues: 4, vectors: 9 },
    { model: "e1000", queues: 1, vectors: 1 },
    { model: "e1000e", queues: 1, vectors: 3 },
    { model: "vmxnet3", queues: 1, vectors: 2 },
    { model: "a model of tomorrow", queues: 8, vectors: 1 },
    { model: "constructor", queues: 1, vectors: 1 },
  ])("$model with $queues: $vectors", ({ model, queues, vectors }) => {
    expect(countVectors({ model, queues })).toBe(vectors);
  });
});

test.each(["", "constructor", "__proto__", "toString"])("are unknown for %j", (name) => {
  expect(findNicModel(name)).toBeUndefined();
});
