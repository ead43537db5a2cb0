// SPDX-License-Identifier: Apache-2.0
import { createHash } from "node:crypto";
import type {
  Attachment,
  IfacePhase,
  Network,
  VirtualMachineInstance,
  VmiStatus,
} from "@patchbay/api";
import type { NetworkStatus } from "@patchbay/api/annotations";
import { aVmi } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { withNics } from "../nics.ts";
import { attachmentStatuses, type PodNetworkFacts } from "../../status/vmi.ts";

const sha256Hex = (text: string): string => createHash("sha256").update(text).digest("hex");
const POD_NIC = `pod${sha256Hex("one").slice(0, 11)}`;
const FAILED: Attachment = {
  name: "one",
  networkName: "default/blue",
  podInterfaceName: POD_NIC,
  state: "Failed",
  reason: "CniFailed",
  message: "no address left",
};

test.each([
  {
    name: "the pod has the attachment",
    state: "up",
    statuses: [{ name: "default/blue", interface: POD_NIC }],
    want: "Attached",
  },
  { name: "the attachment is requested again", state: "up", statuses: [], want: "Requested" },
  {
    name: "the attachment is being removed",
    state: "absent",
    statuses: [{ name: "default/blue", interface: POD_NIC }],
    want: "Removing",
  },
])("removes an old error when $name", ({ state, statuses, want }) => {
  const hotplug = { type: "Unplug", phase: "PodDetaching" } as const;
  const status: VmiStatus = { attachments: [FAILED], interfaces: [{ name: "one", hotplug }] };
  const pod = { elements: [], networkStatus: statuses, errors: {}, podIps: [] };
  const [attachment] = attachmentStatuses(
    { vmi: aVmi({ nics: [{ name: "one", state }], status }), bindings: {} },
    pod,
  );
  expect(attachment).toEqual({
    name: "one",
    networkName: "default/blue",
    podInterfaceName: POD_NIC,
    state: want,
  });
});

const NOTHING: PodNetworkFacts = { elements: [], networkStatus: [], errors: {}, podIps: [] };
const IDENTITY = { name: "one", networkName: "default/blue", podInterfaceName: POD_NIC };
const REQUESTED: Attachment = { ...IDENTITY, state: "Requested" };
const ATTACHED: Attachment = { ...IDENTITY, state: "Attached" };
const REMOVING: Attachment = { ...IDENTITY, state: "Removing" };
const PRESENT = { name: "default/blue", interface: POD_NIC };

describe("a MAC that the network did not assign", () => {
  const [MAC, OTHER] = ["02:00:00:00:00:01", "02:00:00:00:00:02"] as const;
  const NIC = { ...PRESENT, mac: OTHER };

  function attachmentWith(element: object, attachments?: Attachment[]): Attachment | undefined {
    const pod = {
      ...NOTHING,
      elements: [{ name: "blue", namespace: "default", interface: POD_NIC, ...element }],
      networkStatus: [NIC],
    };
    const status: VmiStatus = attachments === undefined ? {} : { attachments };
    const vmi = aVmi({ nics: [{ name: "one", mac: MAC }], status });
    return attachmentStatuses({ vmi, bindings: {} }, pod)[0];
  }

  test("fails the attachment, and the message names both", () => {
    expect(attachmentWith({ mac: MAC })).toEqual({
      ...IDENTITY,
      state: "Failed",
      reason: "RequestNotMet",
      message: expect.stringMatching(
        `assigned MAC ${OTHER} instead of the requested ${MAC}`,
      ) as string,
    });
    expect(attachmentWith({ mac: MAC }, [REQUESTED])).toMatchObject({ state: "Failed" });
  });

  test.each([
    { name: "was only preferred", element: { mac: MAC, "io.patchbay.kept-mac": true } },
    { name: "was not requested, as by a migration's target", element: {} },
  ])("does not matter if it $name", ({ element }) => {
    expect(attachmentWith(element)).toMatchObject({ state: "Attached", mac: OTHER });
  });

  test("does not fail a NIC that is attached already", () => {
    expect(attachmentWith({ mac: MAC }, [ATTACHED])).toMatchObject({ state: "Attached" });
  });
});

describe("an attachment that the status does not contain", () => {
  test.each<{ name: string; pod: Partial<PodNetworkFacts>; state?: string; want: unknown }>([
    { name: "is omitted before it has an outcome", pod: {}, want: [] },
    {
      name: "is omitted for an absent iface",
      pod: { networkStatus: [PRESENT] },
      state: "absent",
      want: [],
    },
    { name: "is attached if its NIC exists", pod: { networkStatus: [PRESENT] }, want: [ATTACHED] },
    {
      name: "is attached with all of CNI's fields",
      pod: {
        networkStatus: [
          { name: "default/other", interface: "net9" },
          {
            ...PRESENT,
            mac: "02:00:00:00:00:01",
            ips: ["10.0.0.1"],
            dns: { nameservers: ["10.0.0.2"] },
            "device-info": { type: "pci" },
          },
        ],
      },
      want: [
        {
          ...ATTACHED,
          mac: "02:00:00:00:00:01",
          ips: ["10.0.0.1"],
          dns: { nameservers: ["10.0.0.2"], search: [] },
          deviceInfo: { type: "pci" },
        },
      ],
    },
    {
      name: "has no addresses if CNI assigned none",
      pod: { networkStatus: [{ ...PRESENT, ips: [] }] },
      want: [ATTACHED],
    },
    {
      name: "is omitted if the NIC belongs to a different network",
      pod: { networkStatus: [{ ...PRESENT, name: "default/green" }] },
      want: [],
    },
    {
      name: "failed if the pod reports an error",
      pod: { errors: { [POD_NIC]: { reason: "CniFailed", message: "no" } } },
      want: [{ ...IDENTITY, state: "Failed", reason: "CniFailed", message: "no" }],
    },
    {
      name: "does not fail because of another NIC's error",
      pod: { errors: { net9: { reason: "CniFailed", message: "no" } } },
      want: [],
    },
  ])("$name", ({ pod, state, want }) => {
    const nic = { name: "one", ...(state === undefined ? {} : { state }) };
    expect(
      attachmentStatuses({ vmi: aVmi({ nics: [nic] }), bindings: {} }, { ...NOTHING, ...pod }),
    ).toStrictEqual(want);
  });

  test("fails with an invalid network name", () => {
    const vmi = aVmi({ nics: [{ name: "one", network: "a/b/c" }] });
    expect(attachmentStatuses({ vmi, bindings: {} }, NOTHING)).toMatchObject([
      { name: "one", state: "Failed", reason: "NetworkInvalid" },
    ]);
  });
});

describe("an attachment that the status contains", () => {
  type Row = {
    readonly name: string;
    readonly before: Attachment;
    /** State of the iface; `gone`: it is not in the specification any more. */
    readonly state: string;
    readonly phase?: IfacePhase;
    readonly pod?: Partial<PodNetworkFacts>;
    readonly want: readonly Attachment[];
  };
  const requested = { elements: [{ name: "blue", interface: POD_NIC }] };
  test.each<Row>([
    { name: "is still requested", before: REQUESTED, state: "up", want: [REQUESTED] },
    { name: "is requested again if it is lost", before: ATTACHED, state: "up", want: [REQUESTED] },
    {
      name: "stays",
      before: ATTACHED,
      state: "up",
      pod: { networkStatus: [PRESENT] },
      want: [ATTACHED],
    },
    {
      name: "contains the gateways of its own NIC",
      before: ATTACHED,
      state: "up",
      pod: {
        networkStatus: [PRESENT],
        gateways: { [POD_NIC]: ["10.9.0.254"], net9: ["10.9.9.254"] },
      },
      want: [{ ...ATTACHED, gateways: ["10.9.0.254"] }],
    },
    {
      name: "stays attached until the node has unwired it",
      before: ATTACHED,
      state: "absent",
      phase: "Unwiring",
      pod: { networkStatus: [PRESENT] },
      want: [ATTACHED],
    },
    {
      name: "stays attached while the node reports nothing",
      before: ATTACHED,
      state: "gone",
      pod: { networkStatus: [PRESENT] },
      want: [ATTACHED],
    },
    { name: "goes", before: ATTACHED, state: "absent", phase: "PodDetaching", want: [REMOVING] },
    {
      name: "is being removed after its entry was deleted",
      before: ATTACHED,
      state: "gone",
      phase: "PodDetaching",
      want: [REMOVING],
    },
    {
      name: "stays attached if it is requested again in time",
      before: ATTACHED,
      state: "up",
      phase: "PodDetaching",
      pod: { networkStatus: [PRESENT] },
      want: [ATTACHED],
    },
    {
      name: "is being removed while the pod has it",
      before: REMOVING,
      state: "gone",
      pod: { networkStatus: [PRESENT] },
      want: [REMOVING],
    },
    {
      name: "is being removed while the pod's annotation requests it",
      before: REMOVING,
      state: "up",
      pod: requested,
      want: [REMOVING],
    },
    { name: "is removed", before: REMOVING, state: "gone", want: [] },
    {
      name: "is removed regardless of the pod's other networks",
      before: REMOVING,
      state: "absent",
      pod: {
        elements: [{ name: "green", interface: "net9" }],
        networkStatus: [{ name: "default/green", interface: "net9" }],
      },
      want: [],
    },
  ])("$name", ({ before, state, phase, pod, want }) => {
    const hotplug = phase === undefined ? {} : { hotplug: { type: "Unplug", phase } as const };
    const vmi = aVmi({
      nics: state === "gone" ? [] : [{ name: "one", state }],
      status: { attachments: [before], interfaces: [{ name: "one", ...hotplug }] },
    });
    expect(attachmentStatuses({ vmi, bindings: {} }, { ...NOTHING, ...pod })).toStrictEqual(want);
  });

  test("is listed after the spec's interfaces, which are listed in order", () => {
    const reported = (name: string): Attachment => ({ ...ATTACHED, name, podInterfaceName: name });
    const vmi = aVmi({
      nics: [{ name: "b" }, { name: "a" }],
      status: { attachments: [reported("left"), reported("a"), reported("b")] },
    });
    expect(attachmentStatuses({ vmi, bindings: {} }, NOTHING).map(({ name }) => name)).toEqual([
      "b",
      "a",
      "left",
    ]);
  });
});

describe("the default network", () => {
  const vmi = {
    ...aVmi(),
    spec: {
      networks: [{ name: "default", pod: {} }],
      domain: {
        devices: {
          interfaces: [
            { name: "default", bridge: {} },
            { name: "lone", bridge: {} },
          ],
        },
      },
    },
  };
  test.each<{ name: string; pod: Partial<PodNetworkFacts>; want: unknown }>([
    { name: "is omitted until the pod reports it", pod: {}, want: [] },
    {
      name: "is attached by its entry",
      pod: {
        networkStatus: [
          { name: "x", interface: "net1" },
          { name: "cbr0", interface: "eth7", default: true, ips: ["10.0.0.5"] },
        ],
        podIps: ["10.9.9.9"],
      },
      want: [{ name: "default", podInterfaceName: "eth7", state: "Attached", ips: ["10.0.0.5"] }],
    },
    {
      name: "has its entry's addresses in the pod's order",
      pod: {
        networkStatus: [{ name: "cbr0", default: true, ips: ["10.0.0.5", "fd00::5", "10.1.0.5"] }],
        podIps: ["fd00::5", "10.0.0.5"],
      },
      want: [
        {
          name: "default",
          podInterfaceName: "eth0",
          state: "Attached",
          ips: ["fd00::5", "10.0.0.5", "10.1.0.5"],
        },
      ],
    },
    {
      name: "is eth0 if its entry has no interface name",
      pod: { networkStatus: [{ name: "cbr0", default: true }] },
      want: [{ name: "default", podInterfaceName: "eth0", state: "Attached" }],
    },
    {
      name: "is attached by the pod's addresses",
      pod: { podIps: ["10.0.0.5"] },
      want: [{ name: "default", podInterfaceName: "eth0", state: "Attached", ips: ["10.0.0.5"] }],
    },
  ])("$name", ({ pod, want }) => {
    expect(attachmentStatuses({ vmi, bindings: {} }, { ...NOTHING, ...pod })).toStrictEqual(want);
  });
});

describe("an iface on a Multus network in place of the pod network", () => {
  const network = { name: "own", multus: { networkName: "blue", default: true } };
  const MAC = "02:00:00:00:00:01";
  const plain = aVmi();
  const vmi = {
    ...plain,
    spec: withNics(plain.spec, [network], [{ name: "own", masquerade: {} }]),
  };
  const identity = { name: "own", networkName: "default/blue", podInterfaceName: "eth0" };
  type Row = {
    readonly name: string;
    readonly pod: Partial<PodNetworkFacts>;
    readonly want: readonly Partial<Attachment>[];
  };
  test.each<Row>([
    { name: "is not listed before the pod has a network", pod: {}, want: [] },
    {
      name: "is attached if the pod's default network is its own",
      pod: {
        networkStatus: [
          { name: "default/blue", interface: "eth0", default: true, mac: MAC, ips: ["10.7.0.5"] },
        ],
        podIps: ["10.7.0.5"],
      },
      want: [{ ...identity, state: "Attached", mac: MAC, ips: ["10.7.0.5"] }],
    },
    {
      name: "fails on another default network",
      pod: { networkStatus: [{ name: "cbr0", interface: "eth0", default: true }] },
      want: [
        {
          ...identity,
          state: "Failed",
          reason: "DefaultNetworkIgnored",
          message:
            "the pod's primary NIC is on network cbr0 instead of default/blue, because no component of its node reads the annotation v1.multus-cni.io/default-network",
        },
      ],
    },
    {
      name: "fails if the pod has addresses of an unreported network",
      pod: { networkStatus: [{ name: "default/blue", interface: "net1" }], podIps: ["10.0.0.5"] },
      want: [
        {
          ...identity,
          state: "Failed",
          reason: "DefaultNetworkIgnored",
          message:
            "the pod's primary NIC is on another network instead of default/blue, because no component of its node reads the annotation v1.multus-cni.io/default-network",
        },
      ],
    },
  ])("$name", ({ pod, want }) => {
    expect(attachmentStatuses({ vmi, bindings: {} }, { ...NOTHING, ...pod })).toStrictEqual(want);
  });
});

describe("an iface whose binding adds a network", () => {
  const EXTRA = POD_NIC.replace("pod", "bnd");
  const bindings = { own: { domainAttachmentType: "tap", networkAttachmentDefinition: "plug" } };
  const ALONG = { name: "default/plug", interface: EXTRA };

  function vmiOn(networks: readonly Network[], status: VmiStatus = {}): VirtualMachineInstance {
    const interfaces = networks.map(({ name }) => ({ name, binding: { name: "own" } }));
    const { spec } = aVmi();
    const domain = { ...spec.domain, devices: { interfaces } };
    return { ...aVmi({ status }), spec: { ...spec, domain, networks: [...networks] } };
  }

  const ON_BLUE = vmiOn([{ name: "one", multus: { networkName: "blue" } }]);

  test.each<{ name: string; pod: Partial<PodNetworkFacts>; want: unknown }>([
    { name: "waits for the additional network", pod: { networkStatus: [PRESENT] }, want: [] },
    { name: "waits for its own network", pod: { networkStatus: [ALONG] }, want: [] },
    {
      name: "is attached with both networks",
      pod: { networkStatus: [PRESENT, ALONG] },
      want: [ATTACHED],
    },
    {
      name: "fails if the additional network fails",
      pod: {
        networkStatus: [PRESENT],
        errors: { [EXTRA]: { reason: "CniFailed", message: "no" } },
      },
      want: [{ ...IDENTITY, state: "Failed", reason: "CniFailed", message: "no" }],
    },
  ])("$name", ({ pod, want }) => {
    const facts = { ...NOTHING, ...pod };
    expect(attachmentStatuses({ vmi: ON_BLUE, bindings }, facts)).toStrictEqual(want);
  });

  test("waits for the additional network on the pod network too", () => {
    const vmi = vmiOn([{ name: "default", pod: {} }]);
    const pod = { ...NOTHING, podIps: ["10.0.0.5"] };
    expect(attachmentStatuses({ vmi, bindings }, pod)).toEqual([]);
    const networkStatus = [{ name: "default/plug", interface: "bndeth0" }];
    const [there] = attachmentStatuses({ vmi, bindings }, { ...pod, networkStatus });
    expect(there).toMatchObject({ name: "default", podInterfaceName: "eth0", state: "Attached" });
  });

  test("is removed when NIC and links are removed", () => {
    const vmi = aVmi({ status: { attachments: [REMOVING] } });
    const left = (...networkStatus: readonly NetworkStatus[]): readonly Attachment[] =>
      attachmentStatuses({ vmi, bindings }, { ...NOTHING, networkStatus });
    expect(left(ALONG)).toEqual([REMOVING]);
    expect(left()).toEqual([]);
  });

  test("reports an invalid name of the additional network", () => {
    const odd = { own: { domainAttachmentType: "tap", networkAttachmentDefinition: "a.b/c" } };
    const pod = { ...NOTHING, networkStatus: [PRESENT] };
    const [failed] = attachmentStatuses({ vmi: ON_BLUE, bindings: odd }, pod);
    expect(failed).toMatchObject({ state: "Failed", reason: "NetworkInvalid" });
  });
});
