// SPDX-License-Identifier: Apache-2.0
// What is known of each iface, by whom: the spec, the pod, the kernel, the domain, the guest, the last report.
import type { Attachment, VirtualMachineInstance, VmiStatus } from "@patchbay/api";
import { parsePciAddress, type NicFacts } from "@patchbay/domain";
import { aVmi } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { EMPTY_GUEST_VIEW } from "../guest/agent-view.ts";
import { collectIfaceFacts, type IfaceSources } from "./phase.ts";
import type { KernelLink } from "./links/link-facts.ts";
import { buildWiring } from "./node-plan.ts";
import { NO_LINKS, type IfaceFacts } from "./facts.ts";

const POD_NIC = "pod7692c3ad354";
const MAC = "02:00:00:00:00:01";
const OTHER_MAC = "02:00:00:00:00:02";

function collect(sources: Partial<IfaceSources>): readonly IfaceFacts[] {
  const vmi = aVmi({ nics: [{ name: "one", mac: MAC }] });
  const nothing = { links: [], nics: [], guest: EMPTY_GUEST_VIEW, bindings: {} };
  return collectIfaceFacts({ vmi, ...nothing, ...sources });
}

function attachmentOf(name: string, podInterfaceName: string): Attachment {
  return { name, podInterfaceName, state: "Attached" };
}

function vmiWith(status: VmiStatus, names: readonly string[] = ["one"]): VirtualMachineInstance {
  return aVmi({ nics: names.map((name) => ({ name, mac: MAC })), status });
}

function aNic(alias: string, more: Partial<NicFacts> = {}): NicFacts {
  const nic = { alias, mac: MAC, model: "virtio", tapName: "tap1", linkUp: true, queues: 2 };
  return { ...nic, ...more };
}

function link(name: string, more: Partial<KernelLink> = {}): KernelLink {
  return { name, mtu: 1400, carrier: false, ...more };
}

test("a declared iface has its entry, its network and its planned names", () => {
  expect(collect({})).toEqual([
    {
      name: "one",
      podInterfaceName: POD_NIC,
      iface: { name: "one", bridge: {}, macAddress: MAC },
      network: { name: "one", multus: { networkName: "blue" } },
      binding: { kind: "bridge" },
      links: NO_LINKS,
    },
  ]);
});

test("the pod's service mesh reaches the wiring", () => {
  const [iface] = collect({ isMeshed: true });
  expect(iface).toMatchObject({ isMeshed: true });
  const facts = { ...iface, binding: { kind: "masquerade" } } as IfaceFacts;
  expect(buildWiring(facts)).toMatchObject({ kind: "masquerade", mesh: {} });
});

describe("the list of ifaces", () => {
  test("contains the spec's interfaces in order, then leftovers by name", () => {
    const vmi = vmiWith(
      {
        attachments: [attachmentOf("z", "pod1"), attachmentOf("two", "pod2")],
        interfaces: [{ name: "m" }, { ipAddress: "10.0.0.1" }],
      },
      ["two", "one"],
    );
    const nics = [aNic("ua-a"), aNic("net0"), aNic("ua-one")];
    expect(collect({ vmi, nics }).map(({ name }) => name)).toEqual(["two", "one", "a", "m", "z"]);
  });
});

describe("the name of the NIC in the pod is what", () => {
  const reported = { name: "one", podInterfaceName: "pod-reported" };
  const attachments = [attachmentOf("one", "pod-attached")];

  test.each([
    {
      name: "the attachment contains, before all other sources",
      sources: { vmi: vmiWith({ attachments, interfaces: [reported] }) },
      want: "pod-attached",
    },
    {
      name: "the status reported, while the pod has no entry",
      sources: { vmi: vmiWith({ interfaces: [reported] }), nics: [aNic("ua-one")] },
      want: "pod-reported",
    },
    {
      name: "the network's hash yields, for a new NIC",
      sources: { vmi: vmiWith({}), nics: [aNic("ua-one", { tapName: "tapother" })] },
      want: POD_NIC,
    },
    {
      name: "the device's tap yields, if no other source has the NIC",
      sources: {
        vmi: vmiWith({}, []),
        nics: [aNic("ua-two"), aNic("ua-one", { tapName: "tapx" })],
      },
      want: "podx",
    },
    {
      name: "stays empty without a source",
      sources: { vmi: vmiWith({ interfaces: [{ name: "one" }] }, []) },
      want: "",
    },
  ])("$name", ({ sources, want }) => {
    const facts = collect(sources).find(({ name }) => name === "one");
    expect(facts?.podInterfaceName).toBe(want);
  });
});

describe("the links of an iface", () => {
  const LINKS = [link(POD_NIC), link("k6t-7692c3ad354"), link("tap7692c3ad354", { carrier: true })];

  test("have the iface's names and the MTU of the pod's NIC", () => {
    const [facts] = collect({ links: LINKS });
    expect(facts?.links).toEqual({
      hasPodInterface: true,
      hasBridge: true,
      hasTap: true,
      isWired: false,
      isTapOpen: true,
      mtu: 1400,
    });
  });

  test.each([
    {
      name: "lack the pod's NIC",
      at: 0,
      want: { hasPodInterface: false, mtu: 0 },
    },
    { name: "lack the bridge", at: 1, want: { hasBridge: false } },
    { name: "lack the tap", at: 2, want: { hasTap: false, isTapOpen: false } },
  ])("$name", ({ at, want }) => {
    const [facts] = collect({ links: LINKS.toSpliced(at, 1) });
    expect(facts?.links).toMatchObject(want);
  });

  test("include a tap that no process has open", () => {
    const [facts] = collect({ links: LINKS.with(2, link("tap7692c3ad354")) });
    expect(facts?.links).toMatchObject({ hasTap: true, isTapOpen: false });
  });

  test("are empty while their names are unknown", () => {
    const vmi = vmiWith({ interfaces: [{ name: "one" }] }, []);
    const [facts] = collect({ vmi, links: [link("k6t-"), link("tap")] });
    expect(facts?.links).toEqual(NO_LINKS);
  });
});

describe("the device of an iface", () => {
  const pciAddress = parsePciAddress("0000:02:00.0");

  test("is the NIC with the iface's alias, including the guest's report for its MAC", () => {
    const link = { mac: MAC, name: "enp2s0", ipv4: { value: ["10.0.0.1"] } };
    const guest = {
      nics: new Map([[MAC, { ...link, ipv6: { value: undefined } }]]),
      otherLinks: [],
    };
    const place = pciAddress === undefined ? {} : { pciAddress };
    const nic = aNic("ua-one", { ...place, mtu: 1450 });
    expect(collect({ nics: [aNic("ua-two"), nic], guest })[0]?.device).toEqual({
      alias: "ua-one",
      mac: MAC,
      linkUp: true,
      queues: 2,
      mtu: 1450,
      pciAddress: "0000:02:00.0",
      guest: { name: "enp2s0", ipv4: ["10.0.0.1"] },
    });
  });

  test.each([
    { name: "has no guest report for a different MAC", mac: OTHER_MAC, want: undefined },
    { name: "has an empty guest report if the guest reports only the NIC", mac: MAC, want: {} },
  ])("$name", ({ mac, want }) => {
    const unknown = { value: undefined };
    const nics = new Map([[mac, { ipv4: unknown, ipv6: unknown }]]);
    const device = collect({ nics: [aNic("ua-one")], guest: { nics, otherLinks: [] } })[0]?.device;
    expect(device).toEqual({
      alias: "ua-one",
      mac: MAC,
      linkUp: true,
      queues: 2,
      ...(want === undefined ? {} : { guest: want }),
    });
  });
});

test("passes on the last report and the pod's annotation", () => {
  const attachments = [attachmentOf("one", "pod1")];
  const interfaces = [{ name: "one", podInterfaceName: "pod1" }];
  const [facts] = collect({ vmi: vmiWith({ attachments, interfaces }, []) });
  expect(facts).toEqual({
    name: "one",
    podInterfaceName: "pod1",
    attachment: attachments[0],
    reported: interfaces[0],
    binding: { kind: "bridge" },
    links: NO_LINKS,
  });
});
