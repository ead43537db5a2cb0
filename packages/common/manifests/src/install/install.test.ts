// SPDX-License-Identifier: Apache-2.0
import type { JsonObject } from "@patchbay/api/json";
import { expect, test } from "vitest";
import { specDifferences } from "./install.ts";

const aSpec = (container: JsonObject, pod: JsonObject = {}): JsonObject => ({
  template: { spec: { containers: [{ name: "a", ...container }], ...pod } },
});

test.each<{ name: string; before: JsonObject; after: JsonObject; want: readonly string[] }>([
  { name: "nothing", before: aSpec({ image: "x" }), after: aSpec({ image: "x" }), want: [] },
  {
    name: "an argument",
    before: aSpec({ args: ["--a=1", "--b"] }),
    after: aSpec({ args: ["--a=2", "--b"] }),
    want: ["- a: --a=1", "+ a: --a=2"],
  },
  {
    name: "an image and a limit",
    before: aSpec({ image: "x:1", resources: { limits: { memory: "1Gi" } } }),
    after: aSpec({ image: "x:2", resources: {} }),
    want: ["- a: image: x:1", "- a: resources.limits.memory: 1Gi", "+ a: image: x:2"],
  },
  {
    name: "list entries",
    before: aSpec({ env: [{ name: "A", value: "1" }] }, { tolerations: [{ operator: "Exists" }] }),
    after: aSpec({ volumeMounts: [{ name: "v", mountPath: "/v" }] }, { hostNetwork: true }),
    want: [
      '- a: env[A]: {"name":"A","value":"1"}',
      '- tolerations: {"operator":"Exists"}',
      '+ a: volumeMounts[/v]: {"name":"v","mountPath":"/v"}',
      "+ hostNetwork: true",
    ],
  },
  {
    name: "a number outside the pod",
    before: { replicas: 1 },
    after: { replicas: 2 },
    want: ["- replicas: 1", "+ replicas: 2"],
  },
])("$name", ({ before, after, want }) => {
  expect(specDifferences(before, after)).toEqual(want);
});
