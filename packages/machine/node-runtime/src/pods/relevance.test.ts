// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { aPod } from "../testing/pods.ts";
import { isRelevant } from "./relevance.ts";

const POD = aPod();

function withMetadata(more: object): typeof POD {
  return { ...POD, metadata: { ...POD.metadata, ...more } };
}

test.each([
  { name: "the same again", current: POD, want: false },
  {
    name: "a network that was plugged",
    current: withMetadata({ annotations: { "k8s.v1.cni.cncf.io/networks": "[]" } }),
    want: false,
  },
  { name: "a later version", current: withMetadata({ resourceVersion: "2" }), want: false },
  {
    name: "a deletion",
    current: withMetadata({ deletionTimestamp: "2026-11-22T12:00:00Z" }),
    want: true,
  },
  { name: "a label", current: withMetadata({ labels: { a: "b" } }), want: true },
  { name: "another status", current: { ...POD, status: { phase: "Failed" } }, want: true },
  {
    name: "another specification",
    current: { ...POD, spec: { ...POD.spec, activeDeadlineSeconds: 1 } },
    want: true,
  },
] as const)("$name is looked at: $want", ({ current, want }) => {
  expect(isRelevant({ kind: "updated", previous: POD, current })).toBe(want);
});

test("a pod that comes or goes is looked at", () => {
  expect(isRelevant({ kind: "added", current: POD })).toBe(true);
  expect(isRelevant({ kind: "deleted", previous: POD })).toBe(true);
});
