// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import type { KubeObject } from "../objects/object.ts";
import { withUnknownConditions } from "./node-lifecycle.ts";

const NOW = "2026-01-02T00:00:00Z";
const BEFORE = "2026-01-01T00:00:00Z";
const OWN = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

function condition(type: string, status: string) {
  return { type, status, reason: "R", lastHeartbeatTime: BEFORE, lastTransitionTime: BEFORE };
}

function silent(conditions: readonly object[] | undefined) {
  const node: KubeObject = {
    apiVersion: "v1",
    kind: "Node",
    metadata: { name: "n", creationTimestamp: BEFORE },
    ...(conditions === undefined ? {} : { status: { phase: "p", conditions } }),
  };
  return withUnknownConditions(node, NOW)["status"];
}

test("conditions of a silent node become Unknown but retain their heartbeat time", () => {
  const known = OWN.map((type) => condition(type, type === "Ready" ? "True" : "False"));
  const of = (type: string) => ({
    type,
    status: "Unknown",
    reason: "NodeStatusUnknown",
    message: "Kubelet stopped posting node status.",
    lastHeartbeatTime: BEFORE,
    lastTransitionTime: NOW,
  });
  expect(silent(known)).toEqual({ phase: "p", conditions: OWN.map(of) });
});

test("conditions from other controllers and Unknown conditions stay unchanged", () => {
  const known = [
    condition("NetworkUnavailable", "False"),
    ...OWN.map((type) => condition(type, "Unknown")),
  ];
  expect(silent(known)).toEqual({ phase: "p", conditions: known });
});

test("a node that never reported gets conditions with that reason", () => {
  const never = {
    type: "Ready",
    status: "Unknown",
    reason: "NodeStatusNeverUpdated",
    message: "Kubelet never posted node status.",
    lastHeartbeatTime: BEFORE,
    lastTransitionTime: NOW,
  };
  expect(silent(undefined)).toMatchObject({ conditions: [never, {}, {}, {}] });
});
