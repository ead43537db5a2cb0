// SPDX-License-Identifier: Apache-2.0
// Conditions of a namespace that is deleted.
import { describe, expect, test } from "vitest";
import type { Fields } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";
import type { StoredObject } from "../storage/store.ts";
import { withContentConditions } from "./namespace-lifecycle.ts";

const NOW = "2026-01-02T00:00:00Z";
const BEFORE = "2026-01-01T00:00:00Z";

function aNamespace(conditions?: readonly Fields[]): KubeObject {
  return {
    apiVersion: "v1",
    kind: "Namespace",
    metadata: { name: "n" },
    status: { phase: "Terminating", ...(conditions === undefined ? {} : { conditions }) },
  };
}

/** An object that is left; only its bucket and finalizers are looked at. */
function left(bucket: string, ...finalizers: readonly string[]): StoredObject {
  const metadata = { name: "o", ...(finalizers.length === 0 ? {} : { finalizers }) };
  return { address: { bucket }, view: () => ({ metadata }) } as unknown as StoredObject;
}

function find(namespace: KubeObject, type: string): Fields | undefined {
  const { conditions } = namespace["status"] as { conditions: readonly Fields[] };
  return conditions.find((condition) => condition["type"] === type);
}

test("an empty namespace has no remaining objects", () => {
  const namespace = withContentConditions(aNamespace(), [], NOW);
  expect(namespace["status"]).toEqual({
    phase: "Terminating",
    conditions: [
      {
        type: "NamespaceDeletionDiscoveryFailure",
        status: "False",
        lastTransitionTime: NOW,
        reason: "ResourcesDiscovered",
        message: "All resources successfully discovered",
      },
      {
        type: "NamespaceDeletionGroupVersionParsingFailure",
        status: "False",
        lastTransitionTime: NOW,
        reason: "ParsedGroupVersions",
        message: "All legacy kube types successfully parsed",
      },
      {
        type: "NamespaceDeletionContentFailure",
        status: "False",
        lastTransitionTime: NOW,
        reason: "ContentDeleted",
        message: "All content successfully deleted, may be waiting on finalization",
      },
      {
        type: "NamespaceContentRemaining",
        status: "False",
        lastTransitionTime: NOW,
        reason: "ContentRemoved",
        message: "All content successfully removed",
      },
      {
        type: "NamespaceFinalizersRemaining",
        status: "False",
        lastTransitionTime: NOW,
        reason: "ContentHasNoFinalizers",
        message: "All content-preserving finalizers finished",
      },
    ],
  });
});

test("counts remaining objects by resource and by finalizer", () => {
  const contents = [left("/pods", "z/y"), left("a.io/widgets", "a/b", "z/y"), left("/pods")];
  const namespace = withContentConditions(aNamespace(), contents, NOW);
  expect(find(namespace, "NamespaceContentRemaining")).toMatchObject({
    status: "True",
    reason: "SomeResourcesRemain",
    message:
      "Some resources are remaining: pods. has 2 resource instances, widgets.a.io has 1 resource instances",
  });
  expect(find(namespace, "NamespaceFinalizersRemaining")).toMatchObject({
    status: "True",
    reason: "SomeFinalizersRemain",
    message:
      "Some content in the namespace has finalizers remaining: a/b in 1 resource instances, z/y in 2 resource instances",
  });
});

describe("the transition time of a condition", () => {
  const type = "NamespaceContentRemaining";

  test.each([
    { name: "is retained if the status is unchanged", status: "False", time: BEFORE, want: BEFORE },
    { name: "is now if the status changes", status: "True", time: BEFORE, want: NOW },
    { name: "is now for a new condition", status: "False", time: undefined, want: NOW },
  ])("$name", ({ status, time, want }) => {
    const before = { type, status, ...(time === undefined ? {} : { lastTransitionTime: time }) };
    const namespace = withContentConditions(
      aNamespace([{ type: "Other", status }, before]),
      [],
      NOW,
    );
    expect(find(namespace, type)?.["lastTransitionTime"]).toBe(want);
  });
});
