// SPDX-License-Identifier: Apache-2.0
import type { ClusterTenantPolicy, KubeVirt } from "@patchbay/api";
import { DEFAULT_POLICY } from "@patchbay/core/nics";
import type { Note } from "@patchbay/kube";
import { createFakeCache } from "@patchbay/kube/testing";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { expect, test } from "vitest";
import { isPolicyEnforced, followPolicy } from "./policy.ts";

const KEY = { namespace: "patchbay", name: "kubevirt" };

function kubevirtWith(tenantPolicy?: ClusterTenantPolicy, phase = "Deployed"): KubeVirt {
  return {
    apiVersion: "kubevirt.io/v1",
    kind: "KubeVirt",
    metadata: KEY,
    status: { phase },
    spec: { configuration: { network: tenantPolicy === undefined ? {} : { tenantPolicy } } },
  };
}

/** A watched policy with its reports. */
function follow(flags: ClusterTenantPolicy = {}) {
  const kubevirts = createFakeCache<KubeVirt>();
  const notes: Note[] = [];
  const log = createFakeLogger();
  const events = {
    record: (_object: unknown, note: Note) => notes.push(note),
    flush: () => Promise.resolve(),
  };
  const policy = followPolicy({ flags, isEnforced: true, kubevirts, events, log });
  let changes = 0;
  policy.onChange(() => {
    changes += 1;
  });
  const levels = (): readonly string[] => log.lines.map(({ level }) => level);
  return { kubevirts, notes, policy, levels, changes: () => changes };
}

test("uses the flags and the default policy without a KubeVirt object", () => {
  const { policy, changes } = follow({ masters: ["eth9"] });
  expect(policy.current()).toEqual({ ...DEFAULT_POLICY, masters: ["eth9"] });
  expect(changes()).toBe(0);
});

test("applies a change at once and reports it once", () => {
  const { policy, kubevirts, changes, levels, notes } = follow();
  kubevirts.put(kubevirtWith());
  expect(changes()).toBe(0);
  kubevirts.put(kubevirtWith({ masters: ["eth1"] }));
  expect(policy.current().masters).toEqual(["eth1"]);
  kubevirts.put(kubevirtWith({ masters: ["eth1"] }, "Deploying"));
  expect(changes()).toBe(1);
  expect(levels()).toEqual(["info"]);
  kubevirts.take(KEY);
  expect(policy.current()).toEqual(DEFAULT_POLICY);
  expect(changes()).toBe(2);
  expect(notes).toEqual([]);
});

test("reports an invalid policy on the object and retains the previous policy", () => {
  const { policy, kubevirts, notes, levels, changes } = follow();
  kubevirts.put(kubevirtWith({ masters: ["eth1"] }));
  kubevirts.put(kubevirtWith({ masters: ["e*1"], plugins: [] }));
  expect(policy.current()).toEqual({ ...DEFAULT_POLICY, masters: ["eth1"] });
  expect(changes()).toBe(1);
  expect(levels()).toEqual(["info", "warn"]);
  expect(notes).toEqual([
    {
      type: "Warning",
      reason: "TenantPolicyInvalid",
      message: expect.stringMatching(
        /^spec\.configuration\.network\.tenantPolicy\.masters\[0\]: "e\*1" must be .*; the previous policy stays/,
      ) as string,
    },
  ]);
  // A status change does not affect the policy.
  kubevirts.put(kubevirtWith({ masters: ["e*1"], plugins: [] }, "Deploying"));
  expect(notes).toHaveLength(1);
  kubevirts.put(kubevirtWith({ masters: ["eth2"] }));
  expect(policy.current().masters).toEqual(["eth2"]);
});

test("allows nothing for an invalid list when the agent starts with it", () => {
  const { policy, kubevirts, notes } = follow();
  kubevirts.put(kubevirtWith({ masters: ["e*1"] }));
  expect(policy.current()).toEqual({ ...DEFAULT_POLICY, masters: [] });
  expect(notes[0]?.message).toContain("the invalid list allows nothing until it is corrected");
});

test.each([
  { mode: "multus", isEnforced: false },
  { mode: "multus-dynamic", isEnforced: false },
  { mode: "alone", isEnforced: true },
  { mode: "multus", cniSocket: "/run/cni.sock", isEnforced: true },
  { mode: "multus", tenantPolicyMode: "enforce", isEnforced: true },
  { mode: "alone", tenantPolicyMode: "warn", isEnforced: false },
] as const)("enforces the policy: $isEnforced in $mode $cniSocket $tenantPolicyMode", (row) => {
  const { isEnforced, ...flags } = row;
  expect(isPolicyEnforced({ tenantPolicyMode: "auto", ...flags })).toBe(isEnforced);
});
