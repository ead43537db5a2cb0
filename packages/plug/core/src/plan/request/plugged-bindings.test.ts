// SPDX-License-Identifier: Apache-2.0
import type { Iface, VmiSpec } from "@patchbay/api";
import { describe, expect, test } from "vitest";
import { pluggedBindingCauses } from "./plugged-bindings.ts";

describe("an iface that is plugged into a VMI that runs", () => {
  const withIfaces = (...interfaces: readonly Iface[]): VmiSpec => ({
    domain: { devices: { interfaces: [...interfaces] } },
  });
  const FINE: Iface = { name: "fine", bridge: {} };
  const SRIOV: Iface = { name: "vf", sriov: {} };
  const refused = (index: number): object => ({
    reason: "FieldValueNotSupported",
    field: `spec.domain.devices.interfaces[${String(index)}].sriov`,
    message: expect.stringContaining("is not supported yet") as string,
  });

  test.each([
    {
      name: "has a binding that is built",
      before: withIfaces(),
      after: withIfaces(FINE),
      want: [],
    },
    { name: "has no other", before: withIfaces(FINE), after: withIfaces(FINE, SRIOV), want: [1] },
    {
      name: "has no other, as the first",
      before: { domain: {} },
      after: withIfaces(SRIOV),
      want: [0],
    },
    {
      name: "has no other, as the first of all devices",
      before: { domain: { devices: {} } },
      after: withIfaces(SRIOV),
      want: [0],
    },
    {
      name: "was there and is not judged",
      before: withIfaces(SRIOV),
      after: withIfaces(FINE, SRIOV),
      want: [],
    },
    {
      name: "is wanted again",
      before: withIfaces({ ...SRIOV, state: "absent" }),
      after: withIfaces(SRIOV),
      want: [0],
    },
    {
      name: "is on its way out",
      before: withIfaces(SRIOV),
      after: withIfaces({ ...SRIOV, state: "absent" }),
      want: [],
    },
    {
      name: "comes absent",
      before: withIfaces(),
      after: withIfaces({ ...SRIOV, state: "absent" }),
      want: [],
    },
    { name: "is none", before: withIfaces(SRIOV), after: { domain: {} }, want: [] },
  ])("$name", ({ before, after, want }) => {
    expect(pluggedBindingCauses({ before, after, base: "spec" }, {})).toEqual(want.map(refused));
  });
});
