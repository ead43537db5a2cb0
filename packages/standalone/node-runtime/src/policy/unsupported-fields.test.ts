// SPDX-License-Identifier: Apache-2.0
import type { Container } from "@patchbay/api/kubernetes";
import { expect, test } from "vitest";
import { aContainer, aPod } from "../testing/pods.ts";
import { findPodProblems } from "./pod-policy.ts";

const PRODUCT = { namespace: "patchbay", name: "virt-handler-x1" };

test.each<{ name: string; container: Partial<Container>; want: readonly string[] }>([
  {
    name: "a part of a volume",
    container: {
      volumeMounts: [
        { name: "v", mountPath: "/v", subPath: "x" },
        { name: "w", mountPath: "/w", subPathExpr: "$(X)" },
      ],
    },
    want: ["volumeMounts[v].subPath", "volumeMounts[w].subPathExpr"],
  },
  {
    name: "a mount that begins nowhere",
    container: { volumeMounts: [{ name: "v", mountPath: "v" }] },
    want: ["volumeMounts[v].mountPath"],
  },
  {
    name: "a device that is nowhere",
    container: { volumeDevices: [{ name: "v", devicePath: "v" }] },
    want: ["volumeDevices[v].devicePath"],
  },
  {
    name: "lifecycle hooks",
    container: { lifecycle: { postStart: {}, preStop: {} } },
    want: ["lifecycle.postStart", "lifecycle.preStop"],
  },
  { name: "a sidecar", container: { restartPolicy: "Always" }, want: ["restartPolicy"] },
])("rejects in any pod: $name", ({ container, want }) => {
  const initContainers = [aContainer({ ...container, name: "first" })];
  const pod = aPod({ initContainers, containers: [aContainer(container)] }, PRODUCT);
  expect(findPodProblems(pod).map(({ field }) => field)).toEqual([
    ...want.map((field) => `spec.initContainers[first].${field}`),
    ...want.map((field) => `spec.containers[compute].${field}`),
  ]);
});

test.each([
  {
    name: "a key",
    volume: { configMap: { name: "c" } },
    subPath: "my_script.sh",
    isAdmitted: true,
  },
  {
    name: "a path that leaves the volume",
    volume: { configMap: { name: "c" } },
    subPath: "../x",
    isAdmitted: false,
  },
  {
    name: "an internal entry of the volume",
    volume: { configMap: { name: "c" } },
    subPath: "..data",
    isAdmitted: false,
  },
  {
    name: "a directory of keys",
    volume: { configMap: { name: "c" } },
    subPath: "a/b",
    isAdmitted: false,
  },
  { name: "a file of the pod's own", volume: { emptyDir: {} }, subPath: "x", isAdmitted: false },
  {
    name: "a file of a claim",
    volume: { persistentVolumeClaim: { claimName: "c" } },
    subPath: "x",
    isAdmitted: false,
  },
])(
  "subPath is only supported for one key of a ConfigMap: $name",
  ({ volume, subPath, isAdmitted }) => {
    const container = aContainer({ volumeMounts: [{ name: "v", mountPath: "/v", subPath }] });
    const problems = findPodProblems(
      aPod({ containers: [container], volumes: [{ name: "v", ...volume }] }),
    );
    expect(problems.some(({ field }) => field.endsWith("[v].subPath"))).toBe(!isAdmitted);
  },
);
