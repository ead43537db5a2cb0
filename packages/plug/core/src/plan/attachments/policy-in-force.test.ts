// SPDX-License-Identifier: Apache-2.0
import type { ClusterTenantPolicy, KubeVirt } from "@patchbay/api";
import { describe, expect, test } from "vitest";
import { DEFAULT_POLICY, policyInForce, policySettingOf } from "./policy-in-force.ts";
import type { TenantPolicy } from "./tenant-policy.ts";

function kubevirtWith(tenantPolicy: unknown): KubeVirt {
  return {
    apiVersion: "kubevirt.io/v1",
    kind: "KubeVirt",
    metadata: { name: "kubevirt" },
    // What a server without the schema may hold.
    spec: { configuration: { network: { tenantPolicy: tenantPolicy as ClusterTenantPolicy } } },
  };
}

const EMPTY: KubeVirt = { apiVersion: "kubevirt.io/v1", kind: "KubeVirt", metadata: { name: "k" } };
const BEFORE: TenantPolicy = { ...DEFAULT_POLICY, masters: ["eth7"] };

interface Row {
  readonly name: string;
  readonly flags?: ClusterTenantPolicy;
  readonly said?: unknown;
  readonly before?: TenantPolicy;
  readonly want: Partial<TenantPolicy>;
}

const ROWS: readonly Row[] = [
  { name: "nobody says anything", want: {} },
  { name: "the cluster says nothing of it any more", before: BEFORE, want: {} },
  {
    name: "the cluster says one list",
    said: { masters: ["eth1", "!*"] },
    want: { masters: ["eth1", "!*"] },
  },
  { name: "the cluster allows nothing", said: { masters: [] }, want: { masters: [] } },
  {
    name: "a flag and the cluster say the same list: the flag counts",
    flags: { masters: ["eth2"] },
    said: { masters: ["eth1"], plugins: ["macvlan"] },
    want: { masters: ["eth2"], plugins: ["macvlan"] },
  },
  {
    name: "a flag that allows nothing counts too",
    flags: { paths: [] },
    said: { paths: ["/a"] },
    want: { paths: [] },
  },
  {
    name: "the cluster changes a list",
    said: { masters: ["eth1"] },
    before: BEFORE,
    want: { masters: ["eth1"] },
  },
];

describe("the policy in force, where", () => {
  test.each(ROWS)("$name", ({ flags = {}, said, before, want }) => {
    const kubevirt = said === undefined ? EMPTY : kubevirtWith(said);
    expect(policyInForce({ flags, kubevirt, before })).toEqual({
      policy: { ...DEFAULT_POLICY, ...want },
      causes: [],
    });
  });

  test("there is no such object", () => {
    const flags = { bridges: ["br1"] };
    expect(policyInForce({ flags, kubevirt: undefined, before: undefined })).toEqual({
      policy: { ...DEFAULT_POLICY, ...flags },
      causes: [],
    });
  });
});

describe("what the cluster says cannot be understood", () => {
  const kubevirt = kubevirtWith({ masters: ["eth1", "e*0"], plugins: ["macvlan"], paths: "/run" });

  test("all causes are told, with their places", () => {
    const { causes } = policyInForce({ flags: {}, kubevirt, before: BEFORE });
    expect(causes.map(({ field, message }) => `${field} ${message}`)).toEqual([
      expect.stringMatching(
        /^spec\.configuration\.network\.tenantPolicy\.masters\[1\] "e\*0" must be/,
      ),
      "spec.configuration.network.tenantPolicy.paths must be a list of texts",
    ]);
  });

  test("all stays as it was, also what can be understood", () => {
    expect(policyInForce({ flags: {}, kubevirt, before: BEFORE }).policy).toBe(BEFORE);
  });

  test("where nothing is known of before, such lists allow nothing, unless a flag says what", () => {
    const flags = { paths: ["/run/cni"] };
    expect(policyInForce({ flags, kubevirt, before: undefined }).policy).toEqual({
      ...DEFAULT_POLICY,
      masters: [],
      plugins: ["macvlan"],
      paths: ["/run/cni"],
    });
  });
});

const FIELD = ", or in spec.configuration.network.tenantPolicy of the KubeVirt object";

test.each([
  { name: "there is none", kubevirt: undefined, want: "" },
  { name: "KubeVirt's own", kubevirt: EMPTY, want: "" },
  {
    name: "Patchbay's",
    kubevirt: { ...EMPTY, metadata: { namespace: "patchbay", name: "kubevirt" } },
    want: FIELD,
  },
  { name: "any that has the field", kubevirt: kubevirtWith({}), want: FIELD },
])("advice names the field of the KubeVirt object: $name", ({ kubevirt, want }) => {
  expect(policySettingOf(kubevirt)).toBe(want);
});
