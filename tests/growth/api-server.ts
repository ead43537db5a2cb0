// SPDX-License-Identifier: Apache-2.0
// Rules of the embedded API server for objects that tenants write.
import { buildKindLimits, findBeyondLimit } from "@patchbay/api/limits";
import { CONFIG_MAP } from "../../packages/standalone/apiserver/src/kinds/config/config-map.ts";
import type { Kind } from "../../packages/standalone/apiserver/src/kinds/kind.ts";
import { SERVICE } from "../../packages/standalone/apiserver/src/kinds/network/service.ts";
import { POD } from "../../packages/standalone/apiserver/src/kinds/workload/pod.ts";
import { validateMeta } from "../../packages/standalone/apiserver/src/meta/metadata.ts";
import type { KubeObject } from "../../packages/standalone/apiserver/src/objects/object.ts";
import { aConfigMap, aPod } from "../../packages/standalone/apiserver/src/testing/objects.ts";
import { decodeShape } from "../../packages/standalone/apiserver/src/shapes/decode-shape.ts";
import { kindShape } from "../../packages/standalone/apiserver/src/shapes/shape.ts";
import { times, type Subject } from "./subject.ts";

const [POD_LIST_MAX, PORTS_MAX, KEYS_MAX, LABELS_MAX] = [64, 256, 8192, 2048];

function nameOf(index: number): string {
  return `n${String(index)}`;
}

/** A pod whose containers mount volumes in reverse order. */
function aLargePod(size: number, name: (index: number) => string): KubeObject {
  const container = (index: number): object => ({
    name: name(index),
    image: "i",
    ports: [{ name: name(index), containerPort: index + 1 }],
    env: [{ name: "A", value: "$(B)" }],
    volumeMounts: [{ name: nameOf(size - 1 - index), mountPath: `/${nameOf(index)}` }],
  });
  return aPod("p", {
    spec: {
      containers: times(size, container),
      initContainers: times(size, container),
      volumes: times(size, (index) => ({ name: name(index), emptyDir: {} })),
      imagePullSecrets: times(size, (index) => ({ name: name(index) })),
      tolerations: times(size, (index) => ({ key: name(index), operator: "Exists" })),
    },
  });
}

function aLargeService(size: number, name: (index: number) => string): KubeObject {
  const ports = times(size, (index) => ({
    name: name(index),
    port: index + 1,
    nodePort: 30_000 + index,
    protocol: "TCP",
  }));
  const metadata = { name: "s", namespace: "default" };
  return { apiVersion: "v1", kind: "Service", metadata, spec: { type: "NodePort", ports } };
}

/** Judges the object, and a change to it from one of different names. */
function judge(kind: Kind, object: KubeObject, before: KubeObject): unknown {
  const { validate, validateUpdate } = kind.strategy;
  return [validate?.(object), validateUpdate?.(object, before)];
}

const SUBJECTS: readonly Subject[] = [
  {
    name: "limits of a pod",
    limit: POD_LIST_MAX,
    prepare: (size) => {
      const pod = aLargePod(size, nameOf);
      const { schema, defaults } = buildKindLimits("Pod");
      return () => findBeyondLimit(pod, schema, "", defaults);
    },
  },
  {
    name: "decoded pod",
    limit: POD_LIST_MAX,
    prepare: (size) => {
      const { spec } = aLargePod(size, nameOf);
      const shape = kindShape("v1", "Pod");
      return () => shape && decodeShape({ spec }, shape);
    },
  },
  {
    name: "pod",
    limit: POD_LIST_MAX,
    prepare: (size) => {
      const pod = aLargePod(size, nameOf);
      return () =>
        judge(
          POD,
          pod,
          aLargePod(size, (index) => `m${String(index)}`),
        );
    },
  },
  {
    name: "pod of one name",
    limit: POD_LIST_MAX,
    prepare: (size) => {
      const pod = aLargePod(size, () => "n");
      return () => judge(POD, pod, pod);
    },
  },
  {
    name: "Service",
    limit: PORTS_MAX,
    prepare: (size) => {
      const service = aLargeService(size, nameOf);
      return () =>
        judge(
          SERVICE,
          service,
          aLargeService(size, () => "n"),
        );
    },
  },
  {
    name: "ConfigMap",
    limit: KEYS_MAX,
    prepare: (size) => {
      const data = Object.fromEntries(times(size, (index) => [nameOf(index), ""]));
      const map = aConfigMap({}, data);
      return () => judge(CONFIG_MAP, map, map);
    },
  },
  {
    name: "metadata",
    limit: LABELS_MAX,
    prepare: (size) => {
      const labels = Object.fromEntries(times(size, (index) => [nameOf(index), "x y"]));
      const finalizers = times(size, (index) => `a.io/${nameOf(index)}`);
      const ownerReferences = times(size, (index) => ({
        apiVersion: "v1",
        kind: "Pod",
        name: nameOf(index),
        uid: nameOf(index),
        controller: true,
      }));
      const map = aConfigMap({ labels, annotations: labels, finalizers, ownerReferences });
      return () => validateMeta(CONFIG_MAP, map);
    },
  },
];

export const API_SERVER: readonly Subject[] = SUBJECTS.map((subject) => ({
  ...subject,
  name: `API server: ${subject.name}`,
}));
