// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { DEFAULT_POLICY } from "./policy-in-force.ts";
import { policyProblems, type TenantPolicy } from "./tenant-policy.ts";

interface Row {
  readonly name: string;
  readonly plugin: Readonly<Record<string, unknown>> & { readonly type: string };
  readonly policy?: Partial<TenantPolicy>;
  readonly namespace?: string;
  readonly want: readonly string[];
}

const OWN = new Set(["br0", "cni0"]);

const ROWS: readonly Row[] = [
  { name: "a bridge of its own", plugin: { type: "bridge", bridge: "blue" }, want: [] },
  {
    name: "addresses of a range, routes and name servers",
    plugin: {
      type: "macvlan",
      master: "eth1",
      ipam: { type: "host-local", subnet: "10.0.0.0/24", routes: [{ dst: "0.0.0.0/0" }] },
      dns: { nameservers: ["10.0.0.1"] },
    },
    want: [],
  },
  {
    name: "the directory of addresses",
    plugin: { type: "x", ipam: { type: "host-local", dataDir: "/var/lib/cni/networks/mine" } },
    want: [],
  },
  {
    name: "a NIC of the node (43)",
    plugin: { type: "host-device", device: "eth0" },
    want: ['type "host-device" (--tenant-plugins)'],
  },
  {
    name: "the node's own bridge (43)",
    plugin: { type: "bridge", bridge: "br0" },
    want: ['bridge "br0", which is the node\'s own (--tenant-bridges)'],
  },
  {
    name: "the node's own bridge, which the administrator has named",
    plugin: { type: "bridge", bridge: "br0" },
    policy: { bridges: ["br0", "*"] },
    want: [],
  },
  {
    name: "the bridge of the pods' own network, which is meant where none is named",
    plugin: { type: "bridge" },
    want: ['bridge "cni0", which is the node\'s own (--tenant-bridges)'],
  },
  {
    name: "the bridge of another program's guests",
    plugin: { type: "cnv-bridge", bridge: "virbr0" },
    want: ['bridge "virbr0" (--tenant-bridges)'],
  },
  {
    name: "a directory elsewhere (44)",
    plugin: { type: "bridge", bridge: "b", ipam: { type: "host-local", dataDir: "/etc/cron.d" } },
    want: ['ipam.dataDir "/etc/cron.d" (--tenant-paths)'],
  },
  {
    name: "a way out of the directory",
    plugin: { type: "x", ipam: { type: "y", dataDir: "/var/lib/cni/networks/../../../etc" } },
    want: ['ipam.dataDir "/var/lib/cni/networks/../../../etc" (--tenant-paths)'],
  },
  {
    name: "a directory that only begins like the one that is allowed",
    plugin: { type: "x", ipam: { type: "y", dataDir: "/var/lib/cni/networks2" } },
    want: ['ipam.dataDir "/var/lib/cni/networks2" (--tenant-paths)'],
  },
  {
    name: "a directory from where the plugin runs",
    plugin: { type: "x", ipam: { type: "y", dataDir: "etc/cron.d" } },
    want: ['ipam.dataDir "etc/cron.d" (--tenant-paths)'],
  },
  {
    name: "a log, a list of files, a file deep inside",
    plugin: {
      type: "ovs",
      logFile: "/root/.profile",
      files: ["/etc/passwd"],
      deep: { kubernetes: { kubeconfig: "/etc/kubernetes/admin.conf" } },
    },
    want: [
      'logFile "/root/.profile" (--tenant-paths)',
      'files[0] "/etc/passwd" (--tenant-paths)',
      'deep.kubernetes.kubeconfig "/etc/kubernetes/admin.conf" (--tenant-paths)',
    ],
  },
  {
    name: "all at once",
    plugin: { type: "host-device", master: "eth0", bridge: "br0", ipam: { type: "dhcp" } },
    policy: { masters: ["eth1"], ipams: ["host-local"] },
    want: [
      'type "host-device" (--tenant-plugins)',
      'master "eth0" (--tenant-masters)',
      'bridge "br0", which is the node\'s own (--tenant-bridges)',
      'ipam.type "dhcp" (--tenant-ipams)',
    ],
  },
  {
    name: "anything that an administrator writes",
    plugin: { type: "host-device", device: "eth0", logFile: "/x" },
    namespace: "default",
    want: [],
  },
];

test.each(ROWS)("$name", ({ plugin, policy, namespace = "tenant", want }) => {
  const config = { cniVersion: "1.0.0", name: "n", plugins: [plugin] };
  expect(policyProblems({ namespace, config }, { ...DEFAULT_POLICY, ...policy }, OWN)).toEqual(
    want,
  );
});

test("10,000 levels are looked through", () => {
  let deep: unknown = "/etc/passwd";
  for (let level = 0; level < 10_000; level += 1) deep = { a: deep };
  const config = { cniVersion: "1.0.0", name: "n", plugins: [{ type: "x", deep }] };
  expect(policyProblems({ namespace: "tenant", config }, DEFAULT_POLICY, OWN)).toHaveLength(1);
});

describe("patterns", () => {
  test.each([
    { patterns: ["*"], name: "any", isAllowed: true },
    { patterns: [], name: "any", isAllowed: false },
    { patterns: ["eth*"], name: "eth0", isAllowed: true },
    { patterns: ["eth*"], name: "veth0", isAllowed: false },
    { patterns: ["!eth0", "eth*"], name: "eth0", isAllowed: false },
    { patterns: ["eth0", "!eth*", "*"], name: "eth0", isAllowed: true },
    { patterns: ["eth0", "!eth*", "*"], name: "eth1", isAllowed: false },
  ])("$patterns: $name is allowed: $isAllowed", ({ patterns, name, isAllowed }) => {
    const config = { cniVersion: "1.0.0", name: "n", plugins: [{ type: "macvlan", master: name }] };
    const policy = { ...DEFAULT_POLICY, masters: patterns };
    const problems = policyProblems({ namespace: "tenant", config }, policy, new Set());
    expect(problems).toHaveLength(isAllowed ? 0 : 1);
  });
});
