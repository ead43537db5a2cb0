// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import type { Iface } from "../kinds/network.ts";
import type { VmiSpec } from "../kinds/vmi-spec.ts";
import { validateVmChange, validateVmiChange } from "./change.ts";

const OLD: Iface = { name: "old", bridge: {}, model: "ne3k" };
const FINE: Iface = { name: "fine", bridge: {} };

function specOf(...interfaces: readonly Iface[]): VmiSpec {
  return {
    domain: { devices: { interfaces: [...interfaces] } },
    networks: interfaces.map(({ name }) => ({ name, multus: { networkName: "blue" } })),
  };
}

describe("a rule that is younger than what is stored", () => {
  test.each([
    { name: "an unplug", after: specOf(OLD, { ...FINE, state: "absent" }) },
    { name: "the removal of the entry before it", after: specOf(OLD) },
    { name: "the removal of the entry itself", after: specOf(FINE) },
    { name: "its own unplug", after: specOf(FINE, { ...OLD, state: "absent" }) },
  ])("does not stand in the way of $name", ({ after }) => {
    expect(validateVmiChange(specOf(FINE, OLD), after)).toEqual([]);
    const [before, template] = [specOf(FINE, OLD), after].map((spec) => ({ template: { spec } }));
    expect(validateVmChange(before, template ?? { template: { spec: after } })).toEqual([]);
  });

  test("knows an entry again by its name, however many there are", () => {
    const others = Array.from({ length: 11 }, (_unused, index) => ({
      ...FINE,
      name: `n${String(index)}`,
    }));
    expect(validateVmiChange(specOf(...others, OLD), specOf(...others.slice(1), OLD))).toEqual([]);
  });

  test.each([
    { name: "another iface", after: specOf(FINE, OLD, { ...OLD, name: "new" }) },
    { name: "another value", after: specOf(FINE, { ...OLD, model: "ne4k" }) },
  ])("judges $name", ({ after }) => {
    expect(validateVmiChange(specOf(FINE, OLD), after)).toHaveLength(1);
    expect(validateVmiChange(undefined, after).length).toBeGreaterThan(0);
  });
});

test("an amount of memory that cannot be read is refused when it comes, with its path", () => {
  const spec: VmiSpec = {
    domain: { memory: { guest: "12Gx" }, resources: { requests: { memory: "lots" } } },
  };
  expect(validateVmChange(undefined, { template: { spec } }).map(({ field }) => field)).toEqual([
    "spec.template.spec.domain.memory.guest",
    "spec.template.spec.domain.resources.requests.memory",
  ]);
  expect(validateVmiChange(spec, { ...spec, nodeSelector: {} })).toEqual([]);
});
