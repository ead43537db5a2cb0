// SPDX-License-Identifier: Apache-2.0
import { LEASES, apiVersionOf } from "@patchbay/api";
import type { Lease } from "@patchbay/api/kubernetes";
import { expect, test } from "vitest";
import { decideClaim, buildHeldLease, findHolder, buildReleasedLease } from "./leader-election.ts";

const KEY = { namespace: "patchbay", name: "virt-controller" };

function buildLease(spec: Lease["spec"]): Lease {
  return {
    apiVersion: apiVersionOf(LEASES),
    kind: LEASES.kind,
    metadata: KEY,
    ...(spec && { spec }),
  };
}

test.each([
  { name: "none", lease: undefined, nowMs: 0, claim: { kind: "take" } },
  { name: "a lease without spec", lease: buildLease(undefined), nowMs: 0, claim: { kind: "take" } },
  {
    name: "a released lease",
    lease: buildLease({ holderIdentity: "", leaseDurationSeconds: 1 }),
    nowMs: 0,
    claim: { kind: "take" },
  },
  {
    name: "a lease that just changed",
    lease: buildLease({ holderIdentity: "a", leaseDurationSeconds: 4, renewTime: "1970-01-01" }),
    nowMs: 1_000,
    claim: { kind: "wait", ms: 3_000 },
  },
  {
    name: "a lease with a long duration",
    lease: buildLease({ holderIdentity: "a", leaseDurationSeconds: 15 }),
    nowMs: 14_000,
    claim: { kind: "wait", ms: 1_000 },
  },
  {
    name: "a lease unchanged for its whole duration",
    lease: buildLease({ holderIdentity: "a", leaseDurationSeconds: 4 }),
    nowMs: 4_000,
    claim: { kind: "take" },
  },
])("decides on a lease, $name: $claim", ({ lease, nowMs, claim }) => {
  expect(decideClaim({ lease, sinceMs: 0 }, nowMs)).toEqual(claim);
});

test("a lease counts its holders and records when the current holder acquired it", () => {
  const at = (nowMs: number, identity: string) => ({ key: KEY, identity, nowMs });
  const first = buildHeldLease(undefined, at(0, "a"));
  const renewed = buildHeldLease(first, at(1_000, "a"));
  const released = buildReleasedLease(renewed);
  const acquired = buildHeldLease(released, at(2_000, "b"));
  expect(findHolder(released)).toBeUndefined();
  expect([first, renewed, acquired].map(({ spec }) => spec)).toMatchObject([
    { holderIdentity: "a", acquireTime: "1970-01-01T00:00:00.000000Z", leaseTransitions: 0 },
    {
      holderIdentity: "a",
      leaseTransitions: 0,
      acquireTime: "1970-01-01T00:00:00.000000Z",
      renewTime: "1970-01-01T00:00:01.000000Z",
    },
    { holderIdentity: "b", acquireTime: "1970-01-01T00:00:02.000000Z", leaseTransitions: 1 },
  ]);
});
