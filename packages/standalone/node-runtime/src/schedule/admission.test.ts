// SPDX-License-Identifier: Apache-2.0
import type { KubeNode, Pod } from "@patchbay/api/kubernetes";
import { createFakeCache } from "@patchbay/kube/testing";
import { beforeEach, expect, test } from "vitest";
import { aContainer, aPod } from "../testing/pods.ts";
import { createAdmission, type Admission } from "./admission.ts";

const NODE: KubeNode = {
  apiVersion: "v1",
  kind: "Node",
  metadata: { name: "n" },
  status: { allocatable: { cpu: "2", memory: "4Gi", pods: "3" } },
};
let pods = createFakeCache<Pod>();
let node: KubeNode | undefined;
let admission: Admission;

beforeEach(() => {
  pods = createFakeCache<Pod>();
  node = NODE;
  admission = createAdmission({ pods, findNode: () => node });
});

function put(name: string, memory: string, status: NonNullable<Pod["status"]> = {}): Pod {
  const containers = [aContainer({ resources: { requests: { memory } } })];
  const pod = { ...aPod({ containers }, { name, uid: `uid-${name}` }), status };
  pods.put(pod);
  return pod;
}

const said = (pod: Pod, hasStarted = false): string | undefined =>
  admission.admit(pod, hasStarted)?.message;

test("assigns memory in the order of requests, also after repeated checks", () => {
  const first = put("first", "3Gi");
  const second = put("second", "2Gi");
  expect(said(first)).toBeUndefined();
  expect(admission.admit(second, false)).toEqual({
    reason: "OutOfmemory",
    message:
      "Pod was rejected: Node didn't have enough resource: memory, requested: 2147483648, used: 3221225472, capacity: 4294967296",
  });
  expect(said(first)).toBeUndefined();
});

test("limits the number of pods", () => {
  const all = ["a", "b", "c", "d"].map((name) => put(name, "1Mi"));
  expect(all.map((pod) => admission.admit(pod, false)?.reason)).toEqual([
    undefined,
    undefined,
    undefined,
    "OutOfpods",
  ]);
});

test("a finished or deleted pod releases its resources", () => {
  said(put("first", "3Gi"));
  put("first", "3Gi", { phase: "Succeeded" });
  expect(said(put("second", "3Gi"))).toBeUndefined();
  pods.take({ namespace: "ns", name: "second" });
  expect(said(put("third", "3Gi"))).toBeUndefined();
});

test("a started pod continues and holds its resources after a process restart", () => {
  const old = put("old", "3Gi", { startTime: "2026-01-01T00:00:00Z" });
  const begun = put("begun", "4Gi");
  expect(said(put("new", "2Gi"))).toMatch(/memory/);
  expect([said(old), said(begun, true)]).toEqual([undefined, undefined]);
});

test("a node whose object was deleted retains its size", () => {
  said(put("first", "3Gi"));
  node = undefined;
  expect(said(put("second", "2Gi"))).toMatch(/memory/);
});
