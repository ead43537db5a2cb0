// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import type { NetworkSelection } from "@patchbay/api/annotations";
import { planAttachmentActions, findChangedAttributes } from "./attachment-actions.ts";
import { facts, owned, printAction, type Facts } from "../../testing/attachment-facts.ts";

const A = { name: "a", interface: "net1" };
const B = { name: "b", interface: "net2" };

interface Row {
  readonly name: string;
  readonly given: Facts;
  readonly want: readonly string[];
}

const ROWS: readonly Row[] = [
  { name: "nothing is wanted and nothing is there", given: facts([]), want: [] },
  {
    name: "what is wanted is there",
    given: facts([A], { owned: [owned("ns1/a", "net1")] }),
    want: [],
  },
  {
    name: "attachments are added in the order of the list",
    given: facts([
      { name: "mv", interface: "net7" },
      { name: "vlan", interface: "net2" },
    ]),
    want: ["add ns1/mv@net7", "add ns1/vlan@net2"],
  },
  {
    name: "what has a device goes before anything comes, which may need the device",
    given: facts([B], {
      owned: [owned("ns1/c", "net3"), owned("ns1/a", "net1", { hasDevice: true })],
    }),
    want: ["del ns1/a@net1", "add ns1/b@net2", "del ns1/c@net3"],
  },
  {
    name: "an element may name a namespace",
    given: facts([{ name: "a", namespace: "other", interface: "net1" }]),
    want: ["add other/a@net1"],
  },
  {
    name: "two unnamed interfaces get names by their place",
    given: facts([{ name: "a" }, { name: "b" }]),
    want: ["add ns1/a@net1", "add ns1/b@net2"],
  },
  {
    name: "what names no NIC keeps the one that it has when what is before it goes",
    given: facts([{ name: "b" }, { name: "c" }], {
      owned: [owned("ns1/a", "net1"), owned("ns1/b", "net2"), owned("ns1/c", "net3")],
    }),
    want: ["del ns1/a@net1"],
  },
  {
    name: "what names no NIC keeps the one that it has when something comes before it, which gets a name that is free",
    given: facts([{ name: "c" }, { name: "a" }, { name: "b" }], {
      owned: [owned("ns1/a", "net1"), owned("ns1/b", "net2")],
    }),
    want: ["add ns1/c@net3"],
  },
  {
    name: "of one network twice the one at its place is kept, and a name that stays is not another's",
    given: facts([{ name: "b" }, { name: "a" }, { name: "a", interface: "net1" }], {
      owned: [owned("ns1/a", "net1"), owned("ns1/a", "net2"), owned("ns1/a", "net3")],
    }),
    want: ["add ns1/b@net4", "del ns1/a@net3"],
  },
  {
    name: "an ADD whose end nobody saw is done again under the same free name",
    given: facts([{ name: "c" }, { name: "a" }], {
      owned: [owned("ns1/a", "net1"), owned("ns1/c", "net2", { state: "begun" })],
    }),
    want: ["del ns1/c@net2", "add ns1/c@net2"],
  },
  {
    name: "a named interface takes up an index too",
    given: facts([{ name: "a", interface: "blue" }, { name: "b" }]),
    want: ["add ns1/a@blue", "add ns1/b@net2"],
  },
  {
    name: "a name that is asked for is not given to another",
    given: facts([{ name: "a" }, { name: "b", interface: "net1" }, B]),
    want: ["add ns1/a@net3", "add ns1/b@net1", "add ns1/b@net2"],
  },
  {
    name: "the same network twice is two attachments",
    given: facts([A, { name: "a", interface: "net2" }]),
    want: ["add ns1/a@net1", "add ns1/a@net2"],
  },
  {
    name: "what is no longer wanted is removed",
    given: facts([], { owned: [owned("ns1/a", "net1")] }),
    want: ["del ns1/a@net1"],
  },
  {
    name: "an interface that is renamed is added before the old one goes",
    given: facts([{ name: "a", interface: "blue" }], { owned: [owned("ns1/a", "net1")] }),
    want: ["add ns1/a@blue", "del ns1/a@net1"],
  },
  {
    name: "a name that is taken over by another network is freed first",
    given: facts([B, { name: "b", interface: "net1" }], { owned: [owned("ns1/a", "net1")] }),
    want: ["add ns1/b@net2", "del ns1/a@net1", "add ns1/b@net1"],
  },
  {
    name: "removals go backwards, since later ones may stand on earlier ones",
    given: facts([], { owned: [owned("ns1/mv", "net1"), owned("ns1/vlan", "net2")] }),
    want: ["del ns1/vlan@net2", "del ns1/mv@net1"],
  },
  {
    name: "an ADD whose end nobody saw is undone and done again",
    given: facts([A, B], { owned: [owned("ns1/a", "net1", { state: "begun" })] }),
    want: ["del ns1/a@net1", "add ns1/a@net1", "add ns1/b@net2"],
  },
  {
    name: "an ADD whose end nobody saw is undone when it is no longer wanted",
    given: facts([], { owned: [owned("ns1/a", "net1", { state: "begun" })] }),
    want: ["del ns1/a@net1"],
  },
  {
    name: "what was made in another sandbox is undone and made in this one",
    given: facts([A], { owned: [owned("ns1/a", "net1", { isStale: true })] }),
    want: ["del ns1/a@net1", "add ns1/a@net1"],
  },
  {
    name: "what is left of another sandbox goes although this one has it",
    given: facts([A], {
      owned: [owned("ns1/a", "net1", { isStale: true }), owned("ns1/a", "net1")],
    }),
    want: ["del ns1/a@net1"],
  },
  {
    name: "what is removed and not yet reported is added again when it is wanted again",
    given: facts([A], { owned: [owned("ns1/a", "net1", { state: "removed" })] }),
    want: ["add ns1/a@net1"],
  },
  {
    name: "what is removed and not yet reported is not removed again",
    given: facts([], { owned: [owned("ns1/a", "net1", { state: "removed" })] }),
    want: [],
  },
  {
    name: "a name that another network holds is refused, and the rest goes on",
    given: facts([A, B, { name: "c", interface: "net3" }], {
      owned: [owned("ns1/c", "net3")],
      foreign: [{ network: "other/a", interfaceName: "net1" }],
    }),
    want: ["error InterfaceNameTaken@net1", "add ns1/b@net2"],
  },
  {
    name: "what names no NIC is adopted under the name that the runtime gave it, where it counted otherwise",
    given: facts([{ name: "a" }], {
      foreign: [
        { network: "kube-system/side", interfaceName: "net1" },
        { network: "ns1/a", interfaceName: "net2" },
      ],
    }),
    want: ["adopt ns1/a@net2"],
  },
  {
    name: "what was adopted under another name than usual stays",
    given: facts([{ name: "a" }], {
      foreign: [{ network: "kube-system/side", interfaceName: "net1" }],
      owned: [owned("ns1/a", "net2", { isAdopted: true })],
    }),
    want: [],
  },
  {
    name: "one network twice, with no names, where the runtime counted otherwise",
    given: facts([{ name: "a" }, { name: "a" }], {
      foreign: [
        { network: "kube-system/side", interfaceName: "net1" },
        { network: "ns1/a", interfaceName: "net2" },
        { network: "ns1/a", interfaceName: "net3" },
      ],
    }),
    want: ["adopt ns1/a@net2", "adopt ns1/a@net3"],
  },
  {
    name: "what names no NIC gets a name that is free where another network holds the usual one",
    given: facts([{ name: "a" }], {
      foreign: [{ network: "kube-system/side", interfaceName: "net1" }],
    }),
    want: ["add ns1/a@net2"],
  },
  {
    name: "the name of the pod's own NIC is refused",
    given: facts([{ name: "a", interface: "eth0" }], {
      foreign: [{ network: "cbr0", interfaceName: "eth0" }],
    }),
    want: ["error InterfaceNameTaken@eth0"],
  },
  {
    name: "a name that another network holds is nothing to a pod that ends",
    given: facts([A], {
      podState: "ending",
      foreign: [{ network: "other/a", interfaceName: "net1" }],
    }),
    want: [],
  },
  {
    name: "what somebody else attached is never removed",
    given: facts([], {
      foreign: [
        { network: "kube-system/side", interfaceName: "net1" },
        { network: "cbr0", interfaceName: "eth0" },
      ],
    }),
    want: [],
  },
  {
    name: "what the runtime made for the annotation is adopted, so that it can be removed",
    given: facts([A, B], { foreign: [{ network: "ns1/a", interfaceName: "net1" }] }),
    want: ["adopt ns1/a@net1", "add ns1/b@net2"],
  },
  {
    name: "what was adopted is removed when it is no longer wanted",
    given: facts([], { owned: [owned("ns1/a", "net1", { isAdopted: true })] }),
    want: ["del ns1/a@net1"],
  },
  {
    name: "what was adopted is swapped for another network",
    given: facts([{ name: "b", interface: "net1" }], {
      owned: [owned("ns1/a", "net1", { isAdopted: true })],
    }),
    want: ["del ns1/a@net1", "add ns1/b@net1"],
  },
  {
    name: "what was adopted in a sandbox that is gone went with it",
    given: facts([A], { owned: [owned("ns1/a", "net1", { isAdopted: true, isStale: true })] }),
    want: ["forget ns1/a@net1", "add ns1/a@net1"],
  },
  {
    name: "what was adopted is left to the runtime at the pod's end",
    given: facts([A], {
      podState: "over",
      owned: [owned("ns1/a", "net1", { isAdopted: true }), owned("ns1/b", "net2")],
    }),
    want: ["del ns1/b@net2", "forget ns1/a@net1"],
  },
  {
    name: "a launcher's NIC that went from the list while nobody looked is adopted, and then goes",
    given: facts([A], {
      foreign: [
        { network: "ns1/b", interfaceName: "pod0123456789a" },
        { network: "ns1/side", interfaceName: "net9" },
      ],
    }),
    want: ["add ns1/a@net1", "adopt ns1/b@pod0123456789a"],
  },
  {
    name: "a MAC that was adopted is nobody's mistake",
    given: facts([{ name: "a", mac: "02:00:00:00:00:01" }], {
      owned: [owned("ns1/a", "net1", { isAdopted: true })],
    }),
    want: [],
  },
  {
    name: "alone, nothing of others is adopted, which is told",
    given: facts([A, B], {
      mode: "alone",
      foreign: [
        { network: "ns1/a", interfaceName: "net1" },
        { network: "ns1/b", interfaceName: "pod0123456789a" },
      ],
    }),
    want: ["error InterfaceNameTaken@net1", "add ns1/b@net2"],
  },
  {
    name: "beside Multus' dynamic networks controller nothing is done for a pod that lives",
    given: facts([A, B], {
      mode: "multus-dynamic",
      foreign: [{ network: "ns1/a", interfaceName: "net1" }],
      owned: [owned("ns1/c", "net3")],
    }),
    want: [],
  },
  {
    name: "beside Multus' dynamic networks controller what was begun before goes with the pod",
    given: facts([A], {
      mode: "multus-dynamic",
      podState: "over",
      owned: [owned("ns1/a", "net1", { isAdopted: true }), owned("ns1/b", "net2")],
    }),
    want: ["del ns1/b@net2", "forget ns1/a@net1"],
  },
  {
    name: "a pod in the network of its node gets nothing, and is told",
    given: facts([A], { isHostNetwork: true }),
    want: ["error HostNetwork@"],
  },
  {
    name: "a pod in the network of its node that asks for nothing is not told",
    given: facts([], { isHostNetwork: true }),
    want: [],
  },
  {
    name: "a list that cannot be read changes nothing",
    given: {
      ...facts([], { owned: [owned("ns1/a", "net1")] }),
      networks: { ok: false, reason: "x" },
    },
    want: ["error AnnotationInvalid@"],
  },
  {
    name: "another MAC for a live attachment is reported, not done",
    given: facts([{ ...A, mac: "02:00:00:00:00:01" }], {
      owned: [owned("ns1/a", "net1", { recordedElement: { name: "a", mac: "02:00:00:00:00:99" } })],
    }),
    want: ["error AttributesFixed@net1"],
  },
  {
    name: "another default route for a live attachment is reported, not done",
    given: facts([{ ...A, "default-route": ["10.0.0.1"] }], {
      owned: [owned("ns1/a", "net1", { recordedElement: A })],
    }),
    want: ["error AttributesFixed@net1"],
  },
  {
    name: "of what nobody has noted, and of what the runtime has made, nothing is said",
    given: facts(
      [
        { ...A, ips: ["10.0.0.1/24"] },
        { ...B, ips: ["10.0.0.1/24"] },
      ],
      {
        owned: [
          owned("ns1/a", "net1"),
          owned("ns1/b", "net2", { recordedElement: B, isAdopted: true }),
        ],
      },
    ),
    want: [],
  },
  {
    name: "a NIC of a KubeVirt launcher is not swapped under its guest, while others are plugged and unplugged",
    given: facts([{ name: "b", interface: "net1" }, B], {
      isKubeVirtLauncher: true,
      owned: [owned("ns1/a", "net1"), owned("ns1/c", "net3")],
    }),
    want: ["error AttributesFixed@net1", "add ns1/b@net2", "del ns1/c@net3"],
  },
  {
    name: "neither is one that Multus made in it",
    given: facts([{ name: "b", interface: "net1" }], {
      isKubeVirtLauncher: true,
      owned: [owned("ns1/a", "net1", { isAdopted: true })],
    }),
    want: ["error AttributesFixed@net1"],
  },
  {
    name: "one of a former sandbox, to which no guest is connected, is",
    given: facts([{ name: "b", interface: "net1" }], {
      isKubeVirtLauncher: true,
      owned: [owned("ns1/a", "net1", { isStale: true })],
    }),
    want: ["del ns1/a@net1", "add ns1/b@net1"],
  },
  {
    name: "a KubeVirt launcher that is over loses everything",
    given: facts([{ name: "b", interface: "net1" }], {
      isKubeVirtLauncher: true,
      podState: "over",
      owned: [owned("ns1/a", "net1")],
    }),
    want: ["del ns1/a@net1"],
  },
  {
    name: "a pod that ends gets nothing new and keeps what it has",
    given: facts([A, B], { owned: [owned("ns1/a", "net1")], podState: "ending" }),
    want: [],
  },
  {
    name: "a pod that ends still loses what it no longer wants",
    given: facts([], { owned: [owned("ns1/a", "net1")], podState: "ending" }),
    want: ["del ns1/a@net1"],
  },
  {
    name: "a pod that is over loses everything, whatever it asks for",
    given: facts([A, B], {
      owned: [owned("ns1/a", "net1"), owned("ns1/b", "net2", { state: "begun" })],
      podState: "over",
    }),
    want: ["del ns1/b@net2", "del ns1/a@net1"],
  },
  {
    name: "a pod that is over loses everything even when its list cannot be read",
    given: {
      ...facts([], { owned: [owned("ns1/a", "net1")], podState: "over" }),
      networks: { ok: false, reason: "x" },
    },
    want: ["del ns1/a@net1"],
  },
];

test.each(ROWS)("$name", ({ given: input, want }) => {
  expect(planAttachmentActions(input).map(printAction)).toEqual(want);
});

/** What the annotation's texts mean to the plan. */

type Attributes = Partial<NetworkSelection>;

const MAC = "02:00:00:00:00:ab";

test.each<{ name: string; before: Attributes; now: Attributes; want: readonly string[] }>([
  { name: "nothing is asked", before: {}, now: {}, want: [] },
  {
    name: "the same MAC in capitals",
    before: { mac: MAC },
    now: { mac: MAC.toUpperCase() },
    want: [],
  },
  { name: "another MAC", before: { mac: MAC }, now: { mac: "02:00:00:00:00:01" }, want: ["mac"] },
  { name: "a MAC where none was", before: {}, now: { mac: MAC }, want: ["mac"] },
  { name: "no MAC any more", before: { mac: MAC }, now: {}, want: [] },
  {
    name: "other addresses",
    before: { ips: ["10.0.0.1/24"] },
    now: { ips: ["10.0.0.2/24"] },
    want: ["ips"],
  },
  { name: "no addresses any more", before: { ips: ["10.0.0.1/24"] }, now: {}, want: ["ips"] },
  { name: "an empty list of addresses", before: {}, now: { ips: [] }, want: [] },
  {
    name: "another claim",
    before: { "ipam-claim-reference": "one" },
    now: { "ipam-claim-reference": "two" },
    want: ["ipam-claim-reference"],
  },
  {
    name: "a claim that is no text any more",
    before: { "ipam-claim-reference": "one" },
    now: { "ipam-claim-reference": "" },
    want: ["ipam-claim-reference"],
  },
  {
    name: "the same arguments in another order",
    before: { "cni-args": { a: 1, b: [2] } },
    now: { "cni-args": { b: [2], a: 1 } },
    want: [],
  },
  {
    name: "other arguments",
    before: { "cni-args": { a: 1 } },
    now: { "cni-args": { a: 2 } },
    want: ["cni-args"],
  },
  { name: "no arguments", before: {}, now: { "cni-args": {} }, want: [] },
  {
    name: "other ports",
    before: { portMappings: [{ hostPort: 80 }] },
    now: { portMappings: [{ hostPort: 81 }] },
    want: ["portMappings"],
  },
  {
    name: "another bandwidth",
    before: { bandwidth: { ingressRate: 1 } },
    now: { bandwidth: { ingressRate: 2 } },
    want: ["bandwidth"],
  },
  {
    name: "another GUID",
    before: { "infiniband-guid": "24:8a:07:03:00:8d:ae:2e" },
    now: {},
    want: ["infiniband-guid"],
  },
  {
    name: "another way out",
    before: { "default-route": ["10.0.0.1"] },
    now: { "default-route": ["10.0.0.9"] },
    want: ["default-route"],
  },
  { name: "another device", before: { deviceID: "0000:00:03.0" }, now: {}, want: ["deviceID"] },
  {
    name: "what is only preferred",
    before: { "io.patchbay.kept-ips": ["10.0.0.1/24"] },
    now: { "io.patchbay.kept-ips": ["10.0.0.2/24"] },
    want: [],
  },
  {
    name: "several",
    before: { mac: MAC, "default-route": ["10.0.0.1"] },
    now: { mac: "02:00:00:00:00:01", ips: ["10.0.0.1/24"] },
    want: ["mac", "ips", "default-route"],
  },
])("changed attributes: $name", ({ before, now, want }) => {
  const element = { name: "a" };
  expect(findChangedAttributes({ ...element, ...before }, { ...element, ...now })).toEqual(want);
});
