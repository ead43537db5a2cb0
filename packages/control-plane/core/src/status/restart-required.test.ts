// SPDX-License-Identifier: Apache-2.0
// What waits for a restart. Rows of area "restart-required" are KubeVirt's: pkg/network/vmliveupdate/restart_test.go.
import type { Iface, Network, VmiSpec } from "@patchbay/api";
import { aVm, aVmi } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { withNics } from "../nics/nics.ts";
import { planNicsChange } from "../nics/spec-plan.ts";
import { listRestartRequiredFields } from "./restart-required.ts";

interface Nic {
  readonly iface: Iface;
  readonly network: Network;
}

const POD: Nic = { iface: { name: "default", bridge: {} }, network: { name: "default", pod: {} } };

function nic(name: string, more: Partial<Iface> = {}, networkName = "blue"): Nic {
  return {
    iface: { name, bridge: {}, ...more },
    network: { name, multus: { networkName } },
  };
}

function specOf(nics: readonly Nic[], domain: Partial<VmiSpec["domain"]> = {}): VmiSpec {
  const spec = withNics(
    aVmi().spec,
    nics.map(({ network }) => network),
    nics.map(({ iface }) => iface),
  );
  return { ...spec, domain: { ...spec.domain, ...domain } };
}

const IFACES = "spec.template.spec.domain.devices.interfaces";
const NETWORKS = "spec.template.spec.networks";
const LIVE = { bindings: {}, isStaged: false };
const SWAPPED = { network: { name: "default", multus: { networkName: "nad" } }, iface: POD.iface };
const PLUGIN = { name: "plug", binding: { name: "plugin" } } as Iface;

interface Row {
  readonly name: string;
  readonly running: VmiSpec;
  readonly wanted: VmiSpec;
  readonly fields: readonly string[];
  /** KubeVirt's word, where the row is one of its own; and why ours differs. */
  readonly kubevirt?: boolean;
  readonly why?: string;
}

const ROWS: readonly Row[] = [
  {
    name: "no interfaces, no change",
    running: specOf([]),
    wanted: specOf([]),
    fields: [],
    kubevirt: false,
  },
  {
    name: "an added bridge NIC",
    running: specOf([]),
    wanted: specOf([nic("new")]),
    fields: [],
    kubevirt: false,
  },
  {
    name: "an added NIC with an unsupported binding",
    running: specOf([]),
    wanted: specOf([{ iface: PLUGIN, network: nic("plug").network }]),
    fields: [`${IFACES}[0]`],
    kubevirt: false,
    why: "KubeVirt leaves it pending and says nothing",
  },
  {
    name: "not the state absent changed to down",
    running: specOf([nic("one", { state: "down" })]),
    wanted: specOf([nic("one", { state: "absent" })]),
    fields: [],
    kubevirt: false,
  },
  {
    name: "a multus network changed to the pod network",
    running: specOf([SWAPPED]),
    wanted: specOf([POD]),
    fields: [`${NETWORKS}[0].multus`, `${NETWORKS}[0].pod`],
    kubevirt: true,
  },
  {
    name: "interface and network removed from the VM",
    running: specOf([nic("one")]),
    wanted: specOf([]),
    fields: [],
    kubevirt: true,
    why: "removing the entries is an unplug here",
  },
  {
    name: "the pod network added to a VM without it",
    running: specOf([nic("one")]),
    wanted: specOf([nic("one"), POD]),
    fields: [`${IFACES}[1]`, `${NETWORKS}[1]`],
    kubevirt: true,
  },
  {
    name: "the pod network removed",
    running: specOf([POD]),
    wanted: specOf([]),
    fields: [IFACES, NETWORKS],
  },
  {
    name: "a changed MAC",
    running: specOf([nic("one", { macAddress: "02:00:00:00:00:01" })]),
    wanted: specOf([nic("one", { macAddress: "02:00:00:00:00:02", state: "down" })]),
    fields: [`${IFACES}[0].macAddress`],
  },
  ...["02:AB:CD:00:00:01", "02-ab-cd-00-00-01"].map((macAddress) => ({
    name: `not the same MAC written as ${macAddress}`,
    running: specOf([nic("one", { macAddress: "02:ab:cd:00:00:01" })]),
    wanted: specOf([nic("one", { macAddress })]),
    fields: [],
  })),
  {
    name: "not a stored field without effect",
    running: specOf([nic("one")], { memory: { guest: "1Gi" } }),
    wanted: specOf([nic("one", { tag: "wan" })], {
      memory: { guest: "1Gi", reservedOverhead: { addedOverhead: "1Mi" } },
    }),
    fields: [],
  },
  {
    name: "not the removal of a field without effect, but changes beside it",
    running: specOf([nic("one", { tag: "wan", model: "e1000" })]),
    wanted: specOf([nic("one", { model: "virtio" })]),
    fields: [`${IFACES}[0].model`],
  },
  {
    name: "not a network that the NIC can be swapped to, nor its network settings",
    running: specOf([nic("one", { ips: ["10.0.0.1/24"] })]),
    wanted: specOf([nic("one", { ips: ["10.0.1.1/24"], cniArgs: { a: "b" } }, "red")]),
    fields: [],
  },
  {
    name: "other changes of a swapped NIC",
    running: specOf([nic("one", { macAddress: "02:00:00:00:00:01" })]),
    wanted: specOf([nic("one", { macAddress: "02:00:00:00:00:02" }, "red")]),
    fields: [`${IFACES}[0].macAddress`],
  },
  {
    name: "changed network settings on the same network",
    running: specOf([nic("one", { ips: ["10.0.0.1/24"] })]),
    wanted: specOf([nic("one", { ips: ["10.0.0.2/24"] })]),
    fields: [`${IFACES}[0].ips`],
  },
  {
    name: "a network that the NIC cannot be swapped to",
    running: specOf([nic("one")]),
    wanted: specOf([nic("one", { sriov: {} }, "red")]),
    fields: [`${IFACES}[0].sriov`, `${NETWORKS}[0].multus.networkName`],
  },
  {
    name: "a network changed during an unplug, on which the NIC is plugged afterwards",
    running: specOf([nic("one", { state: "absent" })]),
    wanted: specOf([nic("one", {}, "red")]),
    fields: [],
  },
  {
    name: "deeply nested fields of both specifications",
    running: specOf([], { memory: { guest: "128Mi" }, cpu: { cores: 1 } }),
    wanted: specOf([], { memory: { guest: "256Mi" }, cpu: { cores: 1, sockets: 2 } }),
    fields: ["spec.template.spec.domain.cpu.sockets", "spec.template.spec.domain.memory.guest"],
  },
];

test.each(ROWS)("$name: $fields", ({ running, wanted, fields, kubevirt, why }) => {
  const vm = aVm();
  const found = listRestartRequiredFields(
    { ...vm, spec: { ...vm.spec, template: { spec: wanted } } },
    { ...aVmi(), spec: running },
    LIVE,
  );
  expect(found).toEqual(fields);
  const same = kubevirt === undefined || found.length > 0 === kubevirt;
  expect(same).toBe(why === undefined);
});

test("lists disks and volumes one by one", () => {
  const specWith = (volumes: VmiSpec["volumes"], bus: string): VmiSpec => ({
    ...specOf([], { devices: { disks: [{ name: "a", disk: { bus } }] } }),
    ...(volumes === undefined ? {} : { volumes }),
  });
  const [a, b] = [
    { name: "a", containerDisk: { image: "old" } },
    { name: "b", emptyDisk: { capacity: "1Gi" } },
  ];
  const running = specWith([a, b], "virtio");
  const fieldsOf = (wanted: VmiSpec): readonly string[] => {
    const vm = aVm();
    const template = { ...vm.spec.template, spec: wanted };
    const vmi = { ...aVmi(), spec: running };
    return listRestartRequiredFields({ ...vm, spec: { ...vm.spec, template } }, vmi, LIVE);
  };
  const base = "spec.template.spec";
  const image = { name: "a", containerDisk: { image: "new" } };
  expect(fieldsOf(running)).toEqual([]);
  expect(fieldsOf(specWith([image, b], "virtio"))).toEqual([
    `${base}.volumes[0].containerDisk.image`,
  ]);
  expect(fieldsOf(specWith([a, b, { ...b, name: "c" }], "virtio"))).toEqual([`${base}.volumes[2]`]);
  expect(fieldsOf(specWith([b], "virtio"))).toEqual([`${base}.volumes`]);
  expect(fieldsOf(specWith([b, a], "virtio"))).toEqual([`${base}.volumes`]);
  expect(fieldsOf(specWith(undefined, "scsi"))).toEqual([
    `${base}.domain.devices.disks[0].disk.bus`,
    `${base}.volumes`,
  ]);
});

test("ignores requests that concern one guest only", () => {
  const vm = aVm();
  const fieldsOf = (wanted: Partial<VmiSpec>, running: Partial<VmiSpec>): readonly string[] => {
    const spec = { ...specOf([]), ...wanted };
    const vmi = { ...aVmi(), spec: { ...specOf([]), ...running } };
    const template = { ...vm.spec.template, spec };
    return listRestartRequiredFields({ ...vm, spec: { ...vm.spec, template } }, vmi, LIVE);
  };
  expect(fieldsOf({}, { startStrategy: "Paused" })).toEqual([]);
  expect(fieldsOf({}, { terminationGracePeriodSeconds: 0 })).toEqual([]);
  const [short, long] = [
    { terminationGracePeriodSeconds: 5 },
    { terminationGracePeriodSeconds: 9 },
  ];
  expect(fieldsOf(long, short)).toEqual([]);
  expect(fieldsOf(short, long)).toEqual(["spec.template.spec.terminationGracePeriodSeconds"]);
});

test.each<{ from?: number; to?: number; device?: number; isLive: boolean }>([
  { to: 1400, device: 1500, isLive: true },
  { from: 1400, to: 1500, device: 1500, isLive: true },
  { from: 1400, to: 1501, device: 1500, isLive: false },
  { from: 1400, device: 1500, isLive: false },
  { to: 1400, isLive: false },
])("an MTU changed from $from to $to with a device of $device is live: $isLive", (row) => {
  const withMtu = (mtu: number | undefined): VmiSpec =>
    specOf([nic("one", mtu === undefined ? {} : { mtu })]);
  const mtu = row.device === undefined ? {} : { mtu: row.device };
  const vmi = {
    ...aVmi(),
    spec: withMtu(row.from),
    status: { interfaces: [{ name: "one", ...mtu }] },
  };
  const vm = aVm();
  const template = { ...vm.spec.template, spec: withMtu(row.to) };
  const changed = { ...vm, spec: { ...vm.spec, template } };
  const fields = row.isLive ? [] : [`${IFACES}[0].mtu`];
  expect(listRestartRequiredFields(changed, vmi, LIVE)).toEqual(fields);
  expect(listRestartRequiredFields(changed, vmi, { ...LIVE, isStaged: true })).toEqual([
    `${IFACES}[0].mtu`,
  ]);
  const [iface] = planNicsChange(template.spec, vmi, {}).planned.ifaces;
  expect(iface?.mtu).toBe(row.isLive ? row.to : row.from);
});

test("queues of a running NIC, and their maximum, change at the next start", () => {
  const specWith = (queues: number): VmiSpec => {
    const spec = specOf([nic("one", { queues })]);
    const devices = { ...spec.domain.devices, maxNetworkInterfaceQueues: queues };
    return { ...spec, domain: { ...spec.domain, devices } };
  };
  const vm = aVm();
  const template = { ...vm.spec.template, spec: specWith(4) };
  const fields = listRestartRequiredFields(
    { ...vm, spec: { ...vm.spec, template } },
    { ...aVmi(), spec: specWith(2) },
    LIVE,
  );
  expect(fields).toEqual([
    `${IFACES}[0].queues`,
    "spec.template.spec.domain.devices.maxNetworkInterfaceQueues",
  ]);
});

test.each<{ name: string; from?: Iface["bandwidth"]; to?: Iface["bandwidth"] }>([
  { name: "added", to: { inbound: { average: "1M" } } },
  {
    name: "changed",
    from: { inbound: { average: "1M" } },
    to: { inbound: { average: "2M", burst: "1M" }, outbound: { average: "1M" } },
  },
  { name: "removed", from: { outbound: { average: "1M" } } },
])("a limit that is $name applies to the running NIC", ({ from, to }) => {
  const specWith = (bandwidth: Iface["bandwidth"]): VmiSpec =>
    specOf([nic("one", bandwidth === undefined ? {} : { bandwidth })]);
  const vm = aVm();
  const template = { ...vm.spec.template, spec: specWith(to) };
  const vmi = { ...aVmi(), spec: specWith(from) };
  const changed = { ...vm, spec: { ...vm.spec, template } };
  expect(listRestartRequiredFields(changed, vmi, LIVE)).toEqual([]);
  const staged = listRestartRequiredFields(changed, vmi, { ...LIVE, isStaged: true });
  expect(staged.join(" ")).toContain(`${IFACES}[0].bandwidth`);
  const [iface] = planNicsChange(template.spec, vmi, {}).planned.ifaces;
  expect(iface?.bandwidth).toEqual(to);
});

describe("a device of a resource claim", () => {
  const HELD = { name: "nics", resourceClaimTemplateName: "nic" };
  const OTHER = { name: "more", resourceClaimTemplateName: "nic" };
  const SLOT = { name: "network-slot-1", resourceClaimTemplateName: "nic" };
  type Claims = VmiSpec["resourceClaims"];

  function deviceOf(name: string, claimName: string, requestName = name): Nic {
    return {
      iface: { name, bridge: {} },
      network: { name, resourceClaim: { claimName, requestName } },
    };
  }

  function specWith(resourceClaims: Claims, ...nics: readonly Nic[]): VmiSpec {
    return { ...specOf([POD, ...nics]), ...(resourceClaims && { resourceClaims }) };
  }

  const CLAIMS = "spec.template.spec.resourceClaims";

  test.each<{
    name: string;
    running: VmiSpec;
    wanted: VmiSpec;
    fields: string[];
    plugged: string[];
  }>([
    {
      name: "of a held claim is plugged",
      running: specWith([HELD]),
      wanted: specWith([HELD], deviceOf("blue", "nics")),
      fields: [],
      plugged: ["blue"],
    },
    {
      name: "of a slot is plugged",
      running: specWith([SLOT]),
      wanted: specWith([SLOT], deviceOf("blue", SLOT.name)),
      fields: [],
      plugged: ["blue"],
    },
    {
      name: "of a further request of a held claim is plugged",
      running: specWith([HELD], deviceOf("blue", "nics")),
      wanted: specWith([HELD], deviceOf("blue", "nics"), deviceOf("red", "nics")),
      fields: [],
      plugged: ["red"],
    },
    {
      name: "of a new claim waits for a restart",
      running: specWith([HELD]),
      wanted: specWith([HELD, OTHER], deviceOf("blue", "more")),
      fields: [`${IFACES}[1]`, `${CLAIMS}[1]`],
      plugged: [],
    },
    {
      name: "of a claim with another template waits for a restart",
      running: specWith([SLOT]),
      wanted: specWith(
        [{ ...SLOT, resourceClaimTemplateName: "fast" }],
        deviceOf("blue", SLOT.name),
      ),
      fields: [`${IFACES}[1]`, `${CLAIMS}[0].resourceClaimTemplateName`],
      plugged: [],
    },
    {
      name: "that gets another request waits for a restart",
      running: specWith([HELD], deviceOf("blue", "nics")),
      wanted: specWith([HELD], deviceOf("blue", "nics", "fast")),
      fields: [`${NETWORKS}[1].resourceClaim.requestName`],
      plugged: [],
    },
    {
      name: "that takes the place of another network waits for a restart",
      running: specWith([HELD], nic("blue")),
      wanted: specWith([HELD], deviceOf("blue", "nics")),
      fields: [`${NETWORKS}[1].multus`, `${NETWORKS}[1].resourceClaim`],
      plugged: [],
    },
    {
      name: "that is removed is unplugged, and its claim is held until the restart",
      running: specWith([HELD], deviceOf("blue", "nics")),
      wanted: specWith([]),
      fields: [CLAIMS],
      plugged: [],
    },
    {
      name: "that nothing uses is no difference",
      running: specWith([SLOT]),
      wanted: specWith(undefined),
      fields: [],
      plugged: [],
    },
  ])("$name", ({ running, wanted, fields, plugged }) => {
    const vm = aVm();
    const template = { ...vm.spec.template, spec: wanted };
    const vmi = { ...aVmi(), spec: running };
    const changed = { ...vm, spec: { ...vm.spec, template } };
    expect(listRestartRequiredFields(changed, vmi, LIVE)).toEqual(fields);
    const { plugs } = planNicsChange(wanted, vmi, {});
    expect(plugs.map(({ iface }) => iface.name)).toEqual(plugged);
  });
});
