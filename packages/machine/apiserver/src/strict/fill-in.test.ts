// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import type { KubeObject } from "../objects/object.ts";
import { fillIn } from "./fill-in.ts";

function aPod(): KubeObject {
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name: "p", namespace: "ns", labels: { a: "b" } },
    spec: { containers: [{ name: "c", image: "i" }] },
    status: {
      conditions: [{ type: "Ready", status: "True" }],
      containerStatuses: [{ name: "c", ready: true }],
    },
  };
}

test("a pod gets tolerations, nulls, empty members and its managers", () => {
  const pod = fillIn(aPod());
  expect(pod["spec"]).toMatchObject({
    tolerations: [
      { key: "node.kubernetes.io/not-ready", effect: "NoExecute", tolerationSeconds: 300 },
      { key: "node.kubernetes.io/unreachable" },
    ],
  });
  expect(pod["status"]).toMatchObject({
    conditions: [{ type: "Ready", lastProbeTime: null, lastTransitionTime: null }],
    containerStatuses: [{ name: "c", lastState: {}, state: {}, imageID: "" }],
  });
  expect(pod.metadata.managedFields).toMatchObject([
    {
      operation: "Update",
      fieldsV1: {
        "f:metadata": { "f:labels": { "f:a": {} } },
        "f:spec": { "f:containers": { 'k:{"name":"c"}': { ".": {}, "f:image": {} } } },
      },
    },
    { subresource: "status", fieldsV1: { "f:status": {} } },
  ]);
});

test("what is there is not filled in", () => {
  const toleration = { key: "node.kubernetes.io/not-ready", operator: "Exists" };
  const condition = { type: "Ready", lastProbeTime: "t", lastTransitionTime: "u" };
  const container = { name: "c", lastState: { a: 1 }, state: { b: 1 }, imageID: "i" };
  const pod = fillIn({
    ...aPod(),
    spec: { tolerations: [toleration] },
    status: { conditions: [condition, "text"], containerStatuses: [container, "text"] },
  });
  expect(pod["spec"]).toEqual({
    tolerations: [
      toleration,
      {
        key: "node.kubernetes.io/unreachable",
        operator: "Exists",
        effect: "NoExecute",
        tolerationSeconds: 300,
      },
    ],
  });
  expect(pod["status"]).toEqual({
    conditions: [condition, "text"],
    containerStatuses: [container, "text"],
  });
});

test.each([
  { apiVersion: "v1", kind: "Node" },
  { apiVersion: "other.io/v1", kind: "Pod" },
])("$apiVersion $kind gets its managers only", (type) => {
  const given = { ...aPod(), ...type };
  const { metadata, ...filled } = fillIn(structuredClone(given));
  expect({ ...filled, metadata: given.metadata }).toEqual(given);
  expect(metadata.managedFields).toHaveLength(2);
});

test("filling in once more changes nothing", () => {
  const once = fillIn(aPod());
  expect(fillIn(structuredClone(once))).toEqual(once);
});
