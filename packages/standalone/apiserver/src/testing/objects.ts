// SPDX-License-Identifier: Apache-2.0
// Objects that tests write directly into a store, as if controllers and kubelets had written them.
import { POD } from "../kinds/workload/pod.ts";
import type { Fields } from "../objects/json.ts";
import type { KubeObject } from "../objects/object.ts";

/** Builds ConfigMap `m` in namespace `default`. */
export function aConfigMap(metadata: Fields = {}, data: Fields = { k: "1" }): KubeObject {
  return {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name: "m", namespace: "default", uid: "u", ...metadata },
    data,
  };
}

/** Builds a running and ready pod on node `n1` in namespace `default`. */
export function aPod(
  name: string,
  change: { readonly metadata?: Fields; readonly spec?: Fields; readonly status?: Fields } = {},
): KubeObject {
  const pod: KubeObject = {
    apiVersion: "v1",
    kind: "Pod",
    metadata: { name, namespace: "default", uid: `uid-${name}`, ...change.metadata },
    spec: {
      nodeName: "n1",
      serviceAccountName: "default",
      containers: [{ name: "c", image: "i" }],
      ...change.spec,
    },
    status: {
      phase: "Running",
      conditions: [{ type: "Ready", status: "True" }],
      ...change.status,
    },
  };
  POD.strategy.applyDefaults?.(pod);
  return pod;
}

/** Schema of a Widget: `spec.size`, `spec.color` with a default, `spec.replicas` and a status. */
const WIDGET_SCHEMA = {
  type: "object",
  properties: {
    spec: {
      type: "object",
      properties: {
        size: { type: "integer", maximum: 100 },
        color: { type: "string", default: "red" },
        replicas: { type: "integer" },
      },
    },
    status: {
      type: "object",
      properties: {
        phase: { type: "string" },
        replicas: { type: "integer" },
        selector: { type: "string" },
      },
    },
  },
};

/** Builds an established definition of `widgets.test.io`: stored as v1, served as v1 and v2 with the same fields. */
export function widgetDefinition(change: Fields = {}): KubeObject {
  const version = {
    served: true,
    subresources: {
      status: {},
      scale: {
        specReplicasPath: ".spec.replicas",
        statusReplicasPath: ".status.replicas",
        labelSelectorPath: ".status.selector",
      },
    },
    schema: { openAPIV3Schema: WIDGET_SCHEMA },
  };
  const names = { plural: "widgets", singular: "widget", kind: "Widget", listKind: "WidgetList" };
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: "widgets.test.io", uid: "uid-definition" },
    spec: {
      group: "test.io",
      scope: "Namespaced",
      names,
      versions: [
        { name: "v1", storage: true, ...version },
        { name: "v2", storage: false, ...version },
      ],
      ...change,
    },
    status: { acceptedNames: names, conditions: [{ type: "Established", status: "True" }] },
  };
}
