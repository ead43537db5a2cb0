// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import {
  DEFAULT_POLICY,
  findPolicyProblems,
  choosePolicy,
  describePolicySetting,
  type TenantPolicy,
} from "./tenant-policy.ts";
import type { ClusterTenantPolicy, KubeVirt } from "@patchbay/api";

interface Row {
  readonly name: string;
  readonly plugin: Readonly<Record<string, unknown>> & { readonly type: string };
  readonly policy?: Partial<TenantPolicy>;
  readonly namespace?: string;
  readonly want: readonly string[];
}

const OWN = new Set(["br0", "cni0"]);

/** A plugin runs its IPAM plugin with all of its own configuration. */
const IPAM: readonly Row[] = [
  ...["host-local", "static", "dhcp", "whereabouts"].map((type) => ({
    name: `allows IPAM plugin ${type} regardless of the allowed plugins`,
    plugin: { type: "bridge", bridge: "b", ipam: { type } },
    policy: { plugins: ["bridge"] },
    want: [],
  })),
  {
    name: "rejects a node NIC through an ipam.type that is not an IPAM plugin (126)",
    plugin: { type: "bridge", bridge: "b", device: "eth0", ipam: { type: "host-device" } },
    want: ['ipam.type "host-device" (--tenant-ipams)'],
  },
  {
    name: "rejects host-device as ipam.type even if every IPAM plugin is allowed",
    plugin: { type: "bridge", bridge: "b", device: "eth0", ipam: { type: "host-device" } },
    policy: { ipams: ["*"] },
    want: ['ipam.type "host-device" (--tenant-plugins)'],
  },
  {
    name: "allows an IPAM plugin that the policy names",
    plugin: { type: "bridge", bridge: "b", ipam: { type: "mine" } },
    policy: { plugins: ["bridge"], ipams: ["mine"] },
    want: [],
  },
];

const bridge = { type: "bridge", bridge: "blue" };

/** Members as Go reads them. */
const ALIASES: readonly Row[] = [
  {
    name: "rejects two bridge members, of which plugins use the last (126)",
    plugin: { ...bridge, Bridge: "br0" },
    want: ["Bridge, which plugins take for bridge"],
  },
  {
    name: "rejects a bridge member in capitals",
    plugin: { type: "cnv-bridge", BRIDGE: "br0" },
    want: [
      "BRIDGE, which plugins take for bridge",
      'bridge "cni0", which is the node\'s own (--tenant-bridges)',
    ],
  },
  {
    name: "rejects duplicates of master, ipam and ipam.type in different case",
    plugin: {
      type: "macvlan",
      master: "eth1",
      Master: "eth0",
      ipam: { type: "dhcp", tYpe: "host-device" },
      IPAM: { type: "host-device" },
    },
    want: [
      "Master, which plugins take for master",
      "IPAM, which plugins take for ipam",
      "ipam.tYpe, which plugins take for type",
    ],
  },
  {
    name: "rejects a long s and a Kelvin sign, which Go folds to letters",
    plugin: { type: "x", maſter: "eth0", Key: 1, key: 2 },
    want: ["ma\u017Fter, which plugins take for master", "key, which plugins take for \u212Aey"],
  },
  {
    name: "rejects duplicate plugin-specific members at any depth",
    plugin: { type: "x", deep: [{ mine: { vlan: 1, Vlan: 2 } }] },
    want: ["deep[0].mine.Vlan, which plugins take for vlan"],
  },
  {
    name: "allows a single plugin-specific member in any case",
    plugin: { type: "x", MTU: 1500, args: { cni: { MAC: "02:00:00:00:00:01" } } },
    want: [],
  },
  {
    name: "rejects a relative path in a member that only Go reads as a path",
    plugin: { type: "x", unixſocket: "etc/x" },
    want: ['unix\u017Focket "etc/x" (--tenant-paths)'],
  },
  {
    name: "rejects link names with a NUL byte, where the kernel stops reading",
    plugin: { type: "macvlan", master: "eth0\0x", bridge: "br0\0x" },
    policy: { masters: ["!eth0", "*"] },
    want: ['master "eth0\0x" (--tenant-masters)', 'bridge "br0\0x" (--tenant-bridges)'],
  },
  {
    name: "rejects the node's own bridge in a list of bridges",
    plugin: { type: "accelerated-bridge", bridge: "blue,br0" },
    want: ['bridge "br0", which is the node\'s own (--tenant-bridges)'],
  },
];

const macvlan = { type: "macvlan", ipam: { type: "static" } };
const masters = { masters: ["eth1", "eth2"] };

/** Links of the node that are named by other members, or by none. */
const LINKS: readonly Row[] = [
  { name: "allows the default route's link if every link is allowed", plugin: macvlan, want: [] },
  ...["macvlan", "ipvlan"].map((type) => ({
    name: `rejects the default route's link for ${type} if only some links are allowed (126)`,
    plugin: { ...macvlan, type },
    policy: masters,
    want: [`master, without which ${type} takes the link of the default route (--tenant-masters)`],
  })),
  {
    name: "rejects the default route's link if one link is not allowed",
    plugin: { ...macvlan, master: "" },
    policy: { masters: ["!eth0", "*"] },
    want: ["master, without which macvlan takes the link of the default route (--tenant-masters)"],
  },
  {
    name: "allows a plugin that needs no master",
    plugin: { ...bridge },
    policy: masters,
    want: [],
  },
  {
    name: "rejects configurations of delegate plugins",
    plugin: {
      type: "own-meta",
      delegate: { type: "macvlan", master: "eth0" },
      delegates: [{ plugins: [{ type: "host-device", device: "eth0" }] }, { type: "bridge" }],
    },
    policy: masters,
    want: [
      'delegate.master "eth0" (--tenant-masters)',
      'delegates[0].plugins[0].type "host-device" (--tenant-plugins)',
      'delegates[1].bridge "cni0", which is the node\'s own (--tenant-bridges)',
    ],
  },
  {
    name: "rejects Multus, which attaches the networks of the pod's annotation",
    plugin: { type: "multus-shim" },
    want: ['type "multus-shim" (--tenant-plugins)'],
  },
  {
    name: "rejects devices of the node",
    plugin: { type: "sriov", deviceID: "0000:03:02.0", runtimeConfig: { deviceID: "x" } },
    want: [
      'deviceID "0000:03:02.0", a device of the node (--tenant-plugins)',
      'runtimeConfig.deviceID "x", a device of the node (--tenant-plugins)',
    ],
  },
  {
    name: "allows devices of the node if host-device is allowed",
    plugin: { type: "host-device", pciBusID: "0000:03:02.0" },
    policy: { plugins: ["*"] },
    want: [],
  },
  {
    name: "allows a plugin with the capability deviceID",
    plugin: { type: "sriov", capabilities: { deviceID: true } },
    want: [],
  },
  {
    name: "rejects a bond of the node's links",
    plugin: { type: "bond", links: [{ name: "eth0" }] },
    want: ["linksInContainer, without which bond takes links of the node (--tenant-plugins)"],
  },
  {
    name: "allows a bond of the pod's links",
    plugin: { type: "bond", linksInContainer: true, links: [{ name: "net1" }] },
    want: [],
  },
];

const ROWS: readonly Row[] = [
  {
    name: "allows a bridge that is not the node's own",
    plugin: { type: "bridge", bridge: "blue" },
    want: [],
  },
  {
    name: "allows address ranges, routes and name servers",
    plugin: {
      type: "macvlan",
      master: "eth1",
      ipam: { type: "host-local", subnet: "10.0.0.0/24", routes: [{ dst: "0.0.0.0/0" }] },
      dns: { nameservers: ["10.0.0.1"] },
    },
    want: [],
  },
  {
    name: "allows a directory below the default data directory",
    plugin: { type: "x", ipam: { type: "host-local", dataDir: "/var/lib/cni/networks/mine" } },
    want: [],
  },
  {
    name: "rejects a NIC of the node (43)",
    plugin: { type: "host-device", device: "eth0" },
    want: ['type "host-device" (--tenant-plugins)'],
  },
  {
    name: "rejects the node's own bridge (43)",
    plugin: { type: "bridge", bridge: "br0" },
    want: ['bridge "br0", which is the node\'s own (--tenant-bridges)'],
  },
  {
    name: "allows the node's own bridge if the administrator named it",
    plugin: { type: "bridge", bridge: "br0" },
    policy: { bridges: ["br0", "*"] },
    want: [],
  },
  {
    name: "rejects the default bridge of the pod network if no bridge is named",
    plugin: { type: "bridge" },
    want: ['bridge "cni0", which is the node\'s own (--tenant-bridges)'],
  },
  {
    name: "rejects the default bridge of cnv-bridge",
    plugin: { type: "cnv-bridge" },
    want: ['bridge "cni0", which is the node\'s own (--tenant-bridges)'],
  },
  {
    name: "rejects the bridge of another program's guests",
    plugin: { type: "cnv-bridge", bridge: "virbr0" },
    want: ['bridge "virbr0" (--tenant-bridges)'],
  },
  {
    name: "rejects another directory (44)",
    plugin: { type: "bridge", bridge: "b", ipam: { type: "host-local", dataDir: "/etc/cron.d" } },
    want: ['ipam.dataDir "/etc/cron.d" (--tenant-paths)'],
  },
  {
    name: "rejects a path that leaves the directory",
    plugin: {
      type: "x",
      ipam: { type: "host-local", dataDir: "/var/lib/cni/networks/../../../etc" },
    },
    want: ['ipam.dataDir "/var/lib/cni/networks/../../../etc" (--tenant-paths)'],
  },
  {
    name: "rejects a directory that only has the allowed one as a prefix",
    plugin: { type: "x", ipam: { type: "host-local", dataDir: "/var/lib/cni/networks2" } },
    want: ['ipam.dataDir "/var/lib/cni/networks2" (--tenant-paths)'],
  },
  {
    name: "rejects a path relative to the plugin's working directory",
    plugin: { type: "x", ipam: { type: "host-local", dataDir: "etc/cron.d" } },
    want: ['ipam.dataDir "etc/cron.d" (--tenant-paths)'],
  },
  {
    name: "rejects a log file, a list of files and a nested file",
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
    name: "rejects all violations at once",
    plugin: { type: "host-device", master: "eth0", bridge: "br0", ipam: { type: "dhcp" } },
    policy: { masters: ["eth1"], ipams: ["host-local"] },
    want: [
      'type "host-device" (--tenant-plugins)',
      'master "eth0" (--tenant-masters)',
      'bridge "br0", which is the node\'s own (--tenant-bridges)',
      'ipam.type "dhcp" (--tenant-ipams)',
    ],
  },
  ...IPAM,
  ...ALIASES,
  ...LINKS,
  {
    name: "allows any configuration of an administrator",
    plugin: { type: "host-device", device: "eth0", logFile: "/x" },
    namespace: "default",
    want: [],
  },
];

test.each(ROWS)("$name", ({ plugin, policy, namespace = "tenant", want }) => {
  const config = { cniVersion: "1.0.0", name: "n", plugins: [plugin] };
  expect(findPolicyProblems({ namespace, config }, { ...DEFAULT_POLICY, ...policy }, OWN)).toEqual(
    want,
  );
});

test("searches 10,000 levels of a configuration", () => {
  let deep: unknown = "/etc/passwd";
  for (let level = 0; level < 10_000; level += 1) deep = { a: deep };
  const config = { cniVersion: "1.0.0", name: "n", plugins: [{ type: "x", deep }] };
  expect(findPolicyProblems({ namespace: "tenant", config }, DEFAULT_POLICY, OWN)).toHaveLength(1);
});

test("searches a list of 300,000 items", () => {
  const list = Array.from({ length: 300_000 }, () => 0);
  const config = { cniVersion: "1.0.0", name: "n", plugins: [{ type: "x", list }] };
  expect(findPolicyProblems({ namespace: "tenant", config }, DEFAULT_POLICY, OWN)).toEqual([]);
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
    const problems = findPolicyProblems({ namespace: "tenant", config }, policy, new Set());
    expect(problems).toHaveLength(isAllowed ? 0 : 1);
  });
});

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

interface PolicyRow {
  readonly name: string;
  readonly flags?: ClusterTenantPolicy;
  readonly said?: unknown;
  readonly previous?: TenantPolicy;
  readonly want: Partial<TenantPolicy>;
}

const POLICY_ROWS: readonly PolicyRow[] = [
  { name: "neither flags nor the cluster set a policy", want: {} },
  { name: "the cluster no longer sets a policy", previous: BEFORE, want: {} },
  {
    name: "the cluster sets one list",
    said: { masters: ["eth1", "!*"] },
    want: { masters: ["eth1", "!*"] },
  },
  { name: "the cluster allows an empty list", said: { masters: [] }, want: { masters: [] } },
  {
    name: "a flag and the cluster set the same list: the flag takes precedence",
    flags: { masters: ["eth2"] },
    said: { masters: ["eth1"], plugins: ["macvlan"] },
    want: { masters: ["eth2"], plugins: ["macvlan"] },
  },
  {
    name: "a flag with an empty list also takes precedence",
    flags: { paths: [] },
    said: { paths: ["/a"] },
    want: { paths: [] },
  },
  {
    name: "the cluster changes a list",
    said: { masters: ["eth1"] },
    previous: BEFORE,
    want: { masters: ["eth1"] },
  },
];

describe("the effective policy if", () => {
  test.each(POLICY_ROWS)("$name", ({ flags = {}, said: message, previous, want }) => {
    const kubevirt = message === undefined ? EMPTY : kubevirtWith(message);
    expect(choosePolicy({ flags, kubevirt, previous })).toEqual({
      policy: { ...DEFAULT_POLICY, ...want },
      causes: [],
    });
  });

  test("the KubeVirt object does not exist", () => {
    const flags = { bridges: ["br1"] };
    expect(choosePolicy({ flags, kubevirt: undefined, previous: undefined })).toEqual({
      policy: { ...DEFAULT_POLICY, ...flags },
      causes: [],
    });
  });
});

describe("an invalid cluster policy", () => {
  const kubevirt = kubevirtWith({ masters: ["eth1", "e*0"], plugins: ["macvlan"], paths: "/run" });

  test("reports all causes with their paths", () => {
    const { causes } = choosePolicy({ flags: {}, kubevirt, previous: BEFORE });
    expect(causes.map(({ field, message }) => `${field} ${message}`)).toEqual([
      expect.stringMatching(
        /^spec\.configuration\.network\.tenantPolicy\.masters\[1\] "e\*0" must be/,
      ),
      "spec.configuration.network.tenantPolicy.paths must be a list of texts",
    ]);
  });

  test("retains the previous policy, including valid fields", () => {
    expect(choosePolicy({ flags: {}, kubevirt, previous: BEFORE }).policy).toBe(BEFORE);
  });

  test("without a previous policy, invalid lists allow nothing unless a flag is set", () => {
    const flags = { paths: ["/run/cni"] };
    expect(choosePolicy({ flags, kubevirt, previous: undefined }).policy).toEqual({
      ...DEFAULT_POLICY,
      masters: [],
      plugins: ["macvlan"],
      paths: ["/run/cni"],
    });
  });
});

test.each([
  { name: "the flag's", flags: { clusterNetworks: ["10.244.0.0/16"] }, networks: {} },
  { name: "its own", flags: {}, networks: { clusterNetworks: ["10.244.0.0/16"] } },
])("rejects ranges that overlap $name cluster networks", ({ flags, networks }) => {
  const ranges = ["10.60.0.0/16", "10.244.3.0/24"];
  const kubevirt = kubevirtWith({ ranges, ...networks });
  const { policy, causes } = choosePolicy({ flags, kubevirt, previous: undefined });
  expect(policy.ranges).toEqual([]);
  expect(causes).toMatchObject([
    {
      field: "spec.configuration.network.tenantPolicy.ranges[1]",
      message: '"10.244.3.0/24" overlaps the cluster network 10.244.0.0/16',
    },
  ]);
});

const FIELD = ", or in spec.configuration.network.tenantPolicy of the KubeVirt object";

test.each([
  { name: "no KubeVirt object", kubevirt: undefined, want: "" },
  { name: "KubeVirt's own object", kubevirt: EMPTY, want: "" },
  {
    name: "Patchbay's",
    kubevirt: { ...EMPTY, metadata: { namespace: "patchbay", name: "kubevirt" } },
    want: FIELD,
  },
  { name: "any object with the field", kubevirt: kubevirtWith({}), want: FIELD },
])("advice names the field of the KubeVirt object: $name", ({ kubevirt, want }) => {
  expect(describePolicySetting(kubevirt)).toBe(want);
});

test("cuts long names, values and paths of a definition in its messages", () => {
  const key = `${"k".repeat(500_000)}Dir`;
  const values = Array.from({ length: 1000 }, (_unused, index) => `/etc/${String(index)}`);
  const nested = { [key]: { [key]: { [key]: { [key]: { [key]: `/${"v".repeat(500_000)}` } } } } };
  const plugin = { type: "bridge", bridge: "blue", [key]: values, nested, TYPE: key };
  const config = { cniVersion: "1.0.0", name: "net", plugins: [plugin] };
  const problems = findPolicyProblems({ namespace: "ns1", config }, DEFAULT_POLICY, new Set());
  expect(problems).toHaveLength(8);
  expect(problems.filter((problem) => problem.length > 1024)).toEqual([]);
  expect(problems.find((problem) => problem.includes('/etc/6"'))).toMatch(/^k+…\[6\] "\/etc\/6"/);
});
