// SPDX-License-Identifier: Apache-2.0
import type { BindingPlugin, VmiSpec } from "@patchbay/api";
import { expect, test } from "vitest";
import { bindingsMiBOf } from "./overhead.ts";

function plugin(memory?: string | number): BindingPlugin {
  const requests = memory === undefined ? {} : { memory };
  return { domainAttachmentType: "tap", computeResourceOverhead: { requests } };
}

const REGISTRY = {
  light: plugin("500Ki"),
  heavy: plugin("200Mi"),
  free: plugin(),
  broken: plugin("a lot"),
  refused: { ...plugin("1Gi"), domainAttachmentType: "odd" },
  silent: { domainAttachmentType: "tap" },
};

function specOf(bindings: readonly string[]): VmiSpec {
  const ifaces = bindings.map((name, index) => ({
    name: `n${String(index)}`,
    binding: { name },
  }));
  return {
    domain: { devices: { interfaces: ifaces } },
    networks: ifaces.map(({ name }) => ({ name, multus: { networkName: "net" } })),
  };
}

test.each([
  { bindings: [], want: 0 },
  { bindings: ["light"], want: 1 },
  { bindings: ["heavy", "light"], want: 201 },
  { bindings: ["heavy", "heavy", "heavy"], want: 200 },
  { bindings: ["free", "broken", "silent"], want: 0 },
  { bindings: ["refused", "unknown", "toString"], want: 0 },
])("bindings $bindings take $want MiB", ({ bindings, want }) => {
  expect(bindingsMiBOf(specOf(bindings), REGISTRY)).toBe(want);
});
