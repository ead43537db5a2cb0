// SPDX-License-Identifier: Apache-2.0
// Rules for the bandwidth limits of interfaces. The kernel's token bucket filter, tc-tbf(8), determines the bounds.
import type { Cause } from "../kinds/kubernetes/meta.ts";
import type { BandwidthLimit } from "../kinds/network.ts";
import { frameBytes } from "../values/frame.ts";
import { isJsonObject } from "../values/json.ts";
import { parseBytes } from "../values/quantity.ts";
import { causeIf, forEachIface } from "./rule.ts";

/** Bounds of a rate, in bytes per second. At the lowest rate, a full frame takes 1.5 s. The highest rate is 1 Tbit/s. */
const [RATE_MIN, RATE_MAX] = [1000, 125_000_000_000];
/** Maximum size of a burst, in bytes. Source: linux/pkt_sched.h, TCA_TBF_BURST is 32 bits wide. */
const BURST_MAX = 0xffff_ffff;
/** Maximum duration of a burst at the average rate, in seconds. The kernel stores at most 274 s: 32 bits in units of 64 ns. */
const BURST_SECONDS_MAX = 200;
/** MTU to assume if an interface sets none, in bytes. Most networks have this MTU. */
const USUAL_MTU = 1500;

function invalidIf(isInvalid: boolean, field: string, message: string): readonly Cause[] {
  return causeIf(isInvalid, { reason: "FieldValueInvalid", field, message });
}

function listNumberCauses(
  value: number | undefined,
  field: string,
  bounds: { readonly min: number; readonly max: number; readonly unit: string },
): readonly Cause[] {
  if (value === undefined) return [];
  const { min, max, unit } = bounds;
  return invalidIf(
    !Number.isInteger(value) || value < min || value > max,
    field,
    `must be a whole number of ${unit} between ${String(min)} and ${String(max)}, inclusive`,
  );
}

/** Checks the limits of one direction. Returns no cause for a malformed quantity, because another rule reports it. */
function listLimitCauses(
  limit: BandwidthLimit | undefined,
  path: string,
  mtu: number,
): readonly Cause[] {
  if (limit === undefined) return [];
  // Requests to add an interface reach this rule before the API server has checked types.
  if (!isJsonObject(limit)) return invalidIf(true, path, "must be an object");
  const given: Partial<BandwidthLimit> = limit;
  const [average, peak, burst] = [limit.average, limit.peak, limit.burst].map(parseBytes);
  const rates = { min: RATE_MIN, max: RATE_MAX, unit: "bytes per second" };
  const longest = BURST_SECONDS_MAX * (average ?? RATE_MAX);
  const bursts = {
    min: frameBytes(mtu),
    max: Math.max(frameBytes(mtu), Math.min(BURST_MAX, Math.floor(longest))),
    unit: "bytes",
  };
  return [
    ...invalidIf(given.average === undefined, `${path}.average`, "is required"),
    ...listNumberCauses(average, `${path}.average`, rates),
    ...listNumberCauses(peak, `${path}.peak`, rates),
    ...invalidIf(
      peak !== undefined && average !== undefined && peak <= average,
      `${path}.peak`,
      "must exceed average",
    ),
    ...listNumberCauses(burst, `${path}.burst`, bursts),
  ];
}

export const bandwidthIsEnforceable = forEachIface(({ bandwidth, mtu = USUAL_MTU }, path) => {
  if (bandwidth === undefined) return [];
  const { inbound, outbound } = bandwidth;
  const field = `${path}.bandwidth`;
  return [
    ...invalidIf(
      inbound === undefined && outbound === undefined,
      field,
      "must contain inbound, outbound or both",
    ),
    ...listLimitCauses(inbound, `${field}.inbound`, mtu),
    ...listLimitCauses(outbound, `${field}.outbound`, mtu),
  ];
});
