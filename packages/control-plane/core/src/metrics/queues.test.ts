// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { queueFamilies } from "./queues.ts";

const FIGURES = {
  depth: 1,
  adds: 2,
  retries: 3,
  unfinishedSeconds: 4,
  longestRunningSeconds: 5,
};

test.each([
  ["kubevirt_workqueue_depth", "gauge", 1],
  ["kubevirt_workqueue_adds_total", "counter", 2],
  ["kubevirt_workqueue_retries_total", "counter", 3],
  ["kubevirt_workqueue_unfinished_work_seconds", "gauge", 4],
  ["kubevirt_workqueue_longest_running_processor_seconds", "gauge", 5],
])("reports %s as a %s of each queue", (name, type, value) => {
  const family = queueFamilies(new Map([["virt-handler-vmi", FIGURES]])).find(
    (one) => one.name === name,
  );
  expect(family).toMatchObject({ type });
  expect(family?.samples).toEqual([{ labels: { name: "virt-handler-vmi" }, value }]);
});
