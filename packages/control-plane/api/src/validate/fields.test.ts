// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { findMistypedFields } from "./fields.ts";

const TEMPLATE = { spec: { domain: {} } };

test.each<{ name: string; spec: unknown; want: readonly string[] }>([
  { name: "the minimal specification", spec: { template: TEMPLATE }, want: [] },
  { name: "nothing", spec: undefined, want: ["spec"] },
  { name: "only a string", spec: "text", want: ["spec"] },
  { name: "no template", spec: {}, want: ["spec.template"] },
  { name: "no domain", spec: { template: { spec: {} } }, want: ["spec.template.spec.domain"] },
  {
    name: "unknown fields, and null where that is allowed",
    spec: { template: { ...TEMPLATE, metadata: { creationTimestamp: null }, more: 1 } },
    want: [],
  },
  {
    name: "values of the wrong types",
    spec: {
      runStrategy: "Sometimes",
      running: "true",
      instancetype: { name: 5 },
      template: {
        metadata: { labels: { a: 1 } },
        spec: {
          domain: { cpu: { cores: 1.5 }, memory: { guest: true }, devices: { disks: [null] } },
        },
      },
    },
    want: [
      "spec.runStrategy",
      "spec.running",
      "spec.instancetype.name",
      "spec.template.metadata.labels.a",
      "spec.template.spec.domain.cpu.cores",
      "spec.template.spec.domain.memory.guest",
      "spec.template.spec.domain.devices.disks[0]",
    ],
  },
  {
    name: "quantities as strings and numbers",
    spec: {
      template: {
        spec: { domain: { memory: { guest: "1Gi" }, resources: { requests: { memory: 5 } } } },
      },
    },
    want: [],
  },
])("finds mistyped fields of a VM with $name: $want", ({ spec, want }) => {
  expect(findMistypedFields(spec)).toEqual(want);
});
