// SPDX-License-Identifier: Apache-2.0
// Which pods have a service mesh's proxy? Rows from KubeVirt's unit tests of pkg/network/istio.
import { expect, test } from "vitest";
import { isMeshed } from "./service-mesh.ts";

const NAME = "sidecar.istio.io/inject";

test.each([
  { metadata: {}, want: false },
  { metadata: { labels: { [NAME]: "true" } }, want: true },
  { metadata: { labels: { [NAME]: "TRUE" } }, want: true },
  { metadata: { labels: { [NAME]: "false" } }, want: false },
  { metadata: { annotations: { [NAME]: "true" } }, want: true },
  {
    metadata: { labels: { [NAME]: "false" }, annotations: { [NAME]: "true" } },
    want: false,
  },
  {
    metadata: { labels: { [NAME]: "true" }, annotations: { [NAME]: "false" } },
    want: true,
  },
])("$metadata: $want", ({ metadata, want }) => {
  expect(isMeshed(metadata)).toBe(want);
});
