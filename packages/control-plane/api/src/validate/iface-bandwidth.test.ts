// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import type { Iface } from "../kinds/network.ts";
import { listGatedCauses } from "./iface-traffic.ts";
import { validateVmiSpec } from "./spec.ts";

type Bandwidth = NonNullable<Iface["bandwidth"]>;

function refused(bandwidth: Bandwidth, more: Partial<Iface> = {}): readonly string[] {
  const interfaces = [{ name: "one", bridge: {}, bandwidth, ...more }];
  const networks = [{ name: "one", multus: { networkName: "blue" } }];
  const causes = validateVmiSpec({ domain: { devices: { interfaces } }, networks }, "spec");
  return causes.map(({ field }) => field.replace("spec.domain.devices.interfaces[0].", ""));
}

const [AVERAGE, PEAK, BURST] = ["average", "peak", "burst"].map(
  (field) => `bandwidth.inbound.${field}`,
);

test.each<{ inbound: NonNullable<Bandwidth["inbound"]>; iface?: Partial<Iface>; want: unknown[] }>([
  { inbound: { average: "10Mi", peak: "20Mi", burst: "1Mi" }, want: [] },
  { inbound: { average: 1_100_000 }, want: [] },
  { inbound: { average: "1.1M" }, want: [] },
  { inbound: { average: "1k", burst: "200k" }, want: [] },
  { inbound: { average: "125G", burst: 4_294_967_295 }, want: [] },
  { inbound: { average: 0 }, want: [AVERAGE] },
  { inbound: { average: 999 }, want: [AVERAGE] },
  { inbound: { average: "126G" }, want: [AVERAGE] },
  { inbound: { average: "1000.5" }, want: [AVERAGE] },
  { inbound: { average: "-1Mi" }, want: [AVERAGE] },
  { inbound: { average: "fast", peak: "2Mi" }, want: [AVERAGE] },
  { inbound: { average: "2Mi", peak: "2Mi" }, want: [PEAK] },
  { inbound: { average: "2Mi", peak: "1Mi" }, want: [PEAK] },
  { inbound: { average: "2Mi", peak: "126G" }, want: [PEAK] },
  { inbound: { average: "2Mi", burst: 0 }, want: [BURST] },
  { inbound: { average: "2Mi", burst: 1521 }, want: [BURST] },
  { inbound: { average: "2Mi", burst: 1522 }, want: [] },
  { inbound: { average: "2Mi", burst: 9021 }, iface: { mtu: 9000 }, want: [BURST] },
  { inbound: { average: "2Mi", burst: 1322 }, iface: { mtu: 1300 }, want: [] },
  { inbound: { average: "1k", burst: 200_001 }, want: [BURST] },
  { inbound: { average: "125G", burst: 4_294_967_296 }, want: [BURST] },
  { inbound: { average: "2Mi", burst: "1522.5" }, want: [BURST] },
  { inbound: { average: 0, peak: 0, burst: 0 }, want: [AVERAGE, PEAK, PEAK, BURST] },
])("a limit of $inbound with $iface is rejected at $want", ({ inbound, iface, want }) => {
  expect(refused({ inbound }, iface)).toEqual(want);
});

test("both directions are checked, and one is required", () => {
  const outbound = { average: 0 };
  expect(refused({ inbound: { average: "1Mi", peak: 5000 }, outbound })).toEqual([
    PEAK,
    "bandwidth.outbound.average",
  ]);
  expect(refused({})).toEqual(["bandwidth"]);
});

test.each([
  { outbound: {}, want: ["bandwidth.outbound.average"] },
  { outbound: null, want: ["bandwidth.outbound"] },
  { outbound: "1Mi", want: ["bandwidth.outbound"] },
])("a limit of $outbound is rejected at $want", ({ outbound, want }) => {
  expect(refused({ outbound } as unknown as Bandwidth)).toEqual(want);
});

test("limits need their gate", () => {
  const interfaces = [{ name: "one", bandwidth: { outbound: { average: "1Mi" } } }];
  const after = { domain: { devices: { interfaces } } };
  const causes = listGatedCauses({ after, base: "spec" }, ["InterfaceMTUOverride"]);
  expect(causes.map(({ field }) => field)).toEqual(["spec.domain.devices.interfaces[0].bandwidth"]);
  expect(causes[0]?.message).toContain("NetworkBandwidthLimiting");
  expect(listGatedCauses({ after, base: "spec" }, ["NetworkBandwidthLimiting"])).toEqual([]);
  expect(listGatedCauses({ before: after, after, base: "spec" }, [])).toEqual([]);
});
