// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import {
  POLICY_FIELD_NAMES,
  POLICY_FIELDS,
  type PolicyFieldName,
  validatePolicyList,
} from "./tenant-policy.ts";

const ROWS: readonly {
  readonly name: PolicyFieldName;
  readonly good: readonly string[];
  readonly bad: readonly unknown[];
}[] = [
  { name: "trustedNamespaces", good: ["a", "team-1"], bad: ["", "Team", "a/b", "-a", "*", 7] },
  {
    name: "plugins",
    good: ["*", "!*", "ovs", "!host-device", "my.cni*"],
    bad: ["", "!", "a*b", "**", "!!a", "a,b", "/bin/a", "a b", null],
  },
  { name: "masters", good: ["eth0.100", "bond*"], bad: ["eth 0", "*0"] },
  { name: "bridges", good: ["br-1", "!br*"], bad: ["br*1"] },
  { name: "ipams", good: ["host-local"], bad: ["a/b"] },
  {
    name: "paths",
    good: ["/run/cni", "/a/.b/..c", "/a"],
    bad: ["", "/", "run", "/a/", "/a//b", "/a/../b", "/..", "/a/.", "~/a"],
  },
  ...(["ranges", "clusterNetworks"] as const).map((name) => ({
    name,
    good: ["10.60.0.0/16", "fd00:60::/64", "10.60.1.1/32"],
    bad: ["", "10.60.0.0", "10.60.0.1/16", "10.60.0.0/33", "010.6.0.0/16", "a/8", "::/129", 10],
  })),
  {
    name: "ports",
    good: ["80", "8000-8999", "65535"],
    bad: ["", "0", "65536", "80-", "90-80", "1-2-3", "-5", "tcp/80", 80],
  },
];

describe.each(ROWS)("$name", ({ name, good, bad }) => {
  test.each(good)("accepts %j", (entry) => {
    expect(validatePolicyList(name, [entry], "f")).toEqual([]);
  });

  test.each(bad)("rejects %j", (entry) => {
    const [cause, ...others] = validatePolicyList(name, [good[0], entry], "f");
    expect(others).toEqual([]);
    expect(cause).toMatchObject({ reason: "FieldValueInvalid", field: "f[1]" });
    expect(cause?.message).toContain(JSON.stringify(entry));
  });
});

test("the default of every list is valid", () => {
  for (const name of POLICY_FIELD_NAMES) {
    expect(validatePolicyList(name, POLICY_FIELDS[name].fallback, name)).toEqual([]);
  }
});

test("treats a value that is not a list as empty", () => {
  expect(validatePolicyList("paths", "/run", "f")).toEqual([
    { reason: "FieldValueInvalid", field: "f", message: "must be a list of texts" },
  ]);
});
