// SPDX-License-Identifier: Apache-2.0
import type { Container, Pod } from "@patchbay/api/kubernetes";
import { expect, test } from "vitest";
import { aContainer, aPod } from "../testing/pods.ts";
import { findPodProblems } from "./pod-policy.ts";

const PRODUCT = { namespace: "patchbay", name: "virt-handler-x1" };
const fieldRef = { fieldPath: "metadata.name" };
const key = { name: "n", key: "k" };

function problemsOf(spec: Partial<Pod["spec"]>): readonly string[] {
  const pod = aPod({ ...spec, serviceAccountName: "virt-handler" }, PRODUCT);
  return findPodProblems(pod).map(({ field, message }) => `${field} ${message}`);
}

test.each<{ name: string; volume: object; want: string }>([
  {
    name: "both a claim and an image",
    volume: { persistentVolumeClaim: { claimName: "c" }, image: { reference: "i" } },
    want: "spec.volumes[v] must be one of persistentVolumeClaim, image",
  },
  {
    name: "both an image and an unknown type",
    volume: { nfs: {}, image: { reference: "i" } },
    want: "spec.volumes[v] must be one of nfs, image",
  },
  {
    name: "projected from a source with two types",
    volume: { projected: { sources: [{ secret: {} }, { secret: {}, serviceAccountToken: {} }] } },
    want: "spec.volumes[v].projected.sources[1] must be one of secret, serviceAccountToken",
  },
  {
    name: "a file of two fields",
    volume: { downwardAPI: { items: [{ path: "p", fieldRef, resourceFieldRef: {} }] } },
    want: "spec.volumes[v].downwardAPI must be one of fieldRef, resourceFieldRef",
  },
])("rejects a volume that is $name in any pod", ({ volume, want }) => {
  expect(problemsOf({ volumes: [{ name: "v", ...volume }] })).toEqual([want]);
});

test.each<{ name: string; container: Partial<Container>; want: string }>([
  {
    name: "a variable from two places",
    container: {
      env: [{ name: "E", valueFrom: { configMapKeyRef: key, secretKeyRef: key } }],
    },
    want: "env[E] must be one of configMapKeyRef, secretKeyRef",
  },
  {
    name: "a variable with a value and from a place",
    container: { env: [{ name: "E", value: "v", valueFrom: { fieldRef } }] },
    want: "env[E] must be one of value, fieldRef",
  },
  {
    name: "an envFrom entry with two sources",
    container: { envFrom: [{ prefix: "P", configMapRef: {}, secretRef: {} }] },
    want: "envFrom[0] must be one of configMapRef, secretRef",
  },
  {
    name: "a probe with two handlers",
    container: { readinessProbe: { periodSeconds: 1, exec: {}, tcpSocket: { port: 1 } } },
    want: "readinessProbe must be one of exec, tcpSocket",
  },
])("rejects a container with $name", ({ container, want }) => {
  const initContainers = [aContainer({ ...container, name: "first" })];
  expect(problemsOf({ initContainers, containers: [aContainer(container)] })).toEqual([
    `spec.initContainers[first].${want}`,
    `spec.containers[compute].${want}`,
  ]);
});

test("accepts a single source, and nulls that a server adds", () => {
  const volumes = [{ name: "v", emptyDir: {}, image: null } as never];
  const env = [{ name: "E", valueFrom: { fieldRef } }];
  const containers = [aContainer({ env, envFrom: [{ prefix: "P", secretRef: {} }] })];
  expect(problemsOf({ volumes, containers })).toEqual([]);
});
