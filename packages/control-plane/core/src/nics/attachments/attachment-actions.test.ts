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
  { name: "an empty list without attachments needs no action", given: facts([]), want: [] },
  {
    name: "existing attachments need no action",
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
    name: "attachments with devices are deleted before others are added, which may need the devices",
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
    name: "two elements without interface get names by index",
    given: facts([{ name: "a" }, { name: "b" }]),
    want: ["add ns1/a@net1", "add ns1/b@net2"],
  },
  {
    name: "elements without interface retain their NICs when an earlier element is removed",
    given: facts([{ name: "b" }, { name: "c" }], {
      owned: [owned("ns1/a", "net1"), owned("ns1/b", "net2"), owned("ns1/c", "net3")],
    }),
    want: ["del ns1/a@net1"],
  },
  {
    name: "elements without interface retain their NICs when an element is inserted, which gets a free name",
    given: facts([{ name: "c" }, { name: "a" }, { name: "b" }], {
      owned: [owned("ns1/a", "net1"), owned("ns1/b", "net2")],
    }),
    want: ["add ns1/c@net3"],
  },
  {
    name: "a network listed twice retains the attachment at its index, and its name is not reused",
    given: facts([{ name: "b" }, { name: "a" }, { name: "a", interface: "net1" }], {
      owned: [owned("ns1/a", "net1"), owned("ns1/a", "net2"), owned("ns1/a", "net3")],
    }),
    want: ["add ns1/b@net4", "del ns1/a@net3"],
  },
  {
    name: "an unfinished ADD is repeated under the same free name",
    given: facts([{ name: "c" }, { name: "a" }], {
      owned: [owned("ns1/a", "net1"), owned("ns1/c", "net2", { state: "begun" })],
    }),
    want: ["del ns1/c@net2", "add ns1/c@net2"],
  },
  {
    name: "a named interface also uses an index",
    given: facts([{ name: "a", interface: "blue" }, { name: "b" }]),
    want: ["add ns1/a@blue", "add ns1/b@net2"],
  },
  {
    name: "a requested name is not assigned to another element",
    given: facts([{ name: "a" }, { name: "b", interface: "net1" }, B]),
    want: ["add ns1/a@net3", "add ns1/b@net1", "add ns1/b@net2"],
  },
  {
    name: "a network listed twice is two attachments",
    given: facts([A, { name: "a", interface: "net2" }]),
    want: ["add ns1/a@net1", "add ns1/a@net2"],
  },
  {
    name: "an attachment that is no longer requested is deleted",
    given: facts([], { owned: [owned("ns1/a", "net1")] }),
    want: ["del ns1/a@net1"],
  },
  {
    name: "a renamed interface is added before the old name is deleted",
    given: facts([{ name: "a", interface: "blue" }], { owned: [owned("ns1/a", "net1")] }),
    want: ["add ns1/a@blue", "del ns1/a@net1"],
  },
  {
    name: "a name claimed by another network is deleted first",
    given: facts([B, { name: "b", interface: "net1" }], { owned: [owned("ns1/a", "net1")] }),
    want: ["add ns1/b@net2", "del ns1/a@net1", "add ns1/b@net1"],
  },
  {
    name: "attachments are deleted in reverse order because later ones may depend on earlier ones",
    given: facts([], { owned: [owned("ns1/mv", "net1"), owned("ns1/vlan", "net2")] }),
    want: ["del ns1/vlan@net2", "del ns1/mv@net1"],
  },
  {
    name: "an unfinished ADD is undone and repeated",
    given: facts([A, B], { owned: [owned("ns1/a", "net1", { state: "begun" })] }),
    want: ["del ns1/a@net1", "add ns1/a@net1", "add ns1/b@net2"],
  },
  {
    name: "an unfinished ADD is undone if it is no longer requested",
    given: facts([], { owned: [owned("ns1/a", "net1", { state: "begun" })] }),
    want: ["del ns1/a@net1"],
  },
  {
    name: "an attachment of another sandbox is deleted and added in the current sandbox",
    given: facts([A], { owned: [owned("ns1/a", "net1", { isStale: true })] }),
    want: ["del ns1/a@net1", "add ns1/a@net1"],
  },
  {
    name: "a stale attachment of another sandbox is deleted although the current sandbox has it",
    given: facts([A], {
      owned: [owned("ns1/a", "net1", { isStale: true }), owned("ns1/a", "net1")],
    }),
    want: ["del ns1/a@net1"],
  },
  {
    name: "a deleted attachment that is not yet reported is added again if requested again",
    given: facts([A], { owned: [owned("ns1/a", "net1", { state: "removed" })] }),
    want: ["add ns1/a@net1"],
  },
  {
    name: "a deleted attachment that is not yet reported is not deleted again",
    given: facts([], { owned: [owned("ns1/a", "net1", { state: "removed" })] }),
    want: [],
  },
  {
    name: "a name in use by another network is rejected, and other elements proceed",
    given: facts([A, B, { name: "c", interface: "net3" }], {
      owned: [owned("ns1/c", "net3")],
      foreign: [{ network: "other/a", interfaceName: "net1" }],
    }),
    want: ["error InterfaceNameTaken@net1", "add ns1/b@net2"],
  },
  {
    name: "an element without interface is adopted under the runtime's name if the runtime's index differs",
    given: facts([{ name: "a" }], {
      foreign: [
        { network: "kube-system/side", interfaceName: "net1" },
        { network: "ns1/a", interfaceName: "net2" },
      ],
    }),
    want: ["adopt ns1/a@net2"],
  },
  {
    name: "an adopted attachment with an unusual name is retained",
    given: facts([{ name: "a" }], {
      foreign: [{ network: "kube-system/side", interfaceName: "net1" }],
      owned: [owned("ns1/a", "net2", { isAdopted: true })],
    }),
    want: [],
  },
  {
    name: "a network listed twice without interfaces is adopted if the runtime's index differs",
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
    name: "an element without interface gets a free name if another network has the usual name",
    given: facts([{ name: "a" }], {
      foreign: [{ network: "kube-system/side", interfaceName: "net1" }],
    }),
    want: ["add ns1/a@net2"],
  },
  {
    name: "the name of the pod's primary NIC is rejected",
    given: facts([{ name: "a", interface: "eth0" }], {
      foreign: [{ network: "cbr0", interfaceName: "eth0" }],
    }),
    want: ["error InterfaceNameTaken@eth0"],
  },
  {
    name: "a name in use by another network does not matter to an ending pod",
    given: facts([A], {
      podState: "ending",
      foreign: [{ network: "other/a", interfaceName: "net1" }],
    }),
    want: [],
  },
  {
    name: "attachments of another component are never deleted",
    given: facts([], {
      foreign: [
        { network: "kube-system/side", interfaceName: "net1" },
        { network: "cbr0", interfaceName: "eth0" },
      ],
    }),
    want: [],
  },
  {
    name: "the runtime's attachment for the annotation is adopted so that it can be deleted",
    given: facts([A, B], { foreign: [{ network: "ns1/a", interfaceName: "net1" }] }),
    want: ["adopt ns1/a@net1", "add ns1/b@net2"],
  },
  {
    name: "an adopted attachment is deleted if it is no longer requested",
    given: facts([], { owned: [owned("ns1/a", "net1", { isAdopted: true })] }),
    want: ["del ns1/a@net1"],
  },
  {
    name: "an adopted attachment is swapped for another network",
    given: facts([{ name: "b", interface: "net1" }], {
      owned: [owned("ns1/a", "net1", { isAdopted: true })],
    }),
    want: ["del ns1/a@net1", "add ns1/b@net1"],
  },
  {
    name: "an adopted attachment of a deleted sandbox is forgotten",
    given: facts([A], { owned: [owned("ns1/a", "net1", { isAdopted: true, isStale: true })] }),
    want: ["forget ns1/a@net1", "add ns1/a@net1"],
  },
  {
    name: "an adopted attachment is left to the runtime at the pod's end",
    given: facts([A], {
      podState: "ended",
      owned: [owned("ns1/a", "net1", { isAdopted: true }), owned("ns1/b", "net2")],
    }),
    want: ["del ns1/b@net2", "forget ns1/a@net1"],
  },
  {
    name: "a launcher's NIC that was removed from the list unobserved is adopted, then deleted",
    given: facts([A], {
      foreign: [
        { network: "ns1/b", interfaceName: "pod0123456789a" },
        { network: "ns1/side", interfaceName: "net9" },
      ],
    }),
    want: ["add ns1/a@net1", "adopt ns1/b@pod0123456789a"],
  },
  {
    name: "an adopted MAC is not an error",
    given: facts([{ name: "a", mac: "02:00:00:00:00:01" }], {
      owned: [owned("ns1/a", "net1", { isAdopted: true })],
    }),
    want: [],
  },
  {
    name: "mode alone adopts no foreign attachment and reports an error",
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
    name: "mode multus-dynamic takes no action for a running pod",
    given: facts([A, B], {
      mode: "multus-dynamic",
      foreign: [{ network: "ns1/a", interfaceName: "net1" }],
      owned: [owned("ns1/c", "net3")],
    }),
    want: [],
  },
  {
    name: "mode multus-dynamic releases attachments of ended sandboxes",
    given: facts([A, B], {
      mode: "multus-dynamic",
      owned: [
        owned("ns1/a", "net1", { isStale: true }),
        owned("ns1/b", "net2"),
        owned("ns1/c", "net3", { isAdopted: true, isStale: true }),
      ],
    }),
    want: ["forget ns1/c@net3", "del ns1/a@net1"],
  },
  {
    name: "mode multus-dynamic deletes earlier attachments with the pod",
    given: facts([A], {
      mode: "multus-dynamic",
      podState: "ended",
      owned: [owned("ns1/a", "net1", { isAdopted: true }), owned("ns1/b", "net2")],
    }),
    want: ["del ns1/b@net2", "forget ns1/a@net1"],
  },
  {
    name: "a pod with host network gets an error and no attachments",
    given: facts([A], { isHostNetwork: true }),
    want: ["error HostNetwork@"],
  },
  {
    name: "a pod with host network without requested networks gets no error",
    given: facts([], { isHostNetwork: true }),
    want: [],
  },
  {
    name: "an unreadable list changes nothing in the current sandbox",
    given: {
      ...facts([], {
        owned: [owned("ns1/a", "net1"), owned("ns1/b", "net2", { isStale: true })],
      }),
      networks: { ok: false, reason: "x" },
    },
    want: ["del ns1/b@net2", "error AnnotationInvalid@"],
  },
  {
    name: "a changed MAC for a live attachment is reported and not applied",
    given: facts([{ ...A, mac: "02:00:00:00:00:01" }], {
      owned: [
        owned("ns1/a", "net1", {
          recordedElement: { name: "a", mac: "02:00:00:00:00:99" },
          definitionChanges: ["plugins[0].bridge"],
        }),
      ],
    }),
    want: ["error AttributesFixed@net1"],
  },
  {
    name: "a changed default route for a live attachment is reported and not applied",
    given: facts([{ ...A, "default-route": ["10.0.0.1"] }], {
      owned: [owned("ns1/a", "net1", { recordedElement: A })],
    }),
    want: ["error AttributesFixed@net1"],
  },
  {
    name: "changed addresses are not reported for unrecorded and adopted attachments",
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
    name: "a KubeVirt launcher's NIC is not swapped under its guest, while others are plugged and unplugged",
    given: facts([{ name: "b", interface: "net1" }, B], {
      isKubeVirtLauncher: true,
      owned: [owned("ns1/a", "net1"), owned("ns1/c", "net3")],
    }),
    want: ["error AttributesFixed@net1", "add ns1/b@net2", "del ns1/c@net3"],
  },
  {
    name: "a KubeVirt launcher's NIC from Multus is not swapped under its guest",
    given: facts([{ name: "b", interface: "net1" }], {
      isKubeVirtLauncher: true,
      owned: [owned("ns1/a", "net1", { isAdopted: true })],
    }),
    want: ["error AttributesFixed@net1"],
  },
  {
    name: "a KubeVirt launcher's NIC of an old sandbox is swapped because it has no guest",
    given: facts([{ name: "b", interface: "net1" }], {
      isKubeVirtLauncher: true,
      owned: [owned("ns1/a", "net1", { isStale: true })],
    }),
    want: ["del ns1/a@net1", "add ns1/b@net1"],
  },
  {
    name: "a completed KubeVirt launcher loses all attachments",
    given: facts([{ name: "b", interface: "net1" }], {
      isKubeVirtLauncher: true,
      podState: "ended",
      owned: [owned("ns1/a", "net1")],
    }),
    want: ["del ns1/a@net1"],
  },
  {
    name: "an ending pod retains its attachments and gets no new ones",
    given: facts([A, B], { owned: [owned("ns1/a", "net1")], podState: "ending" }),
    want: [],
  },
  {
    name: "an ending pod loses attachments that are no longer requested",
    given: facts([], { owned: [owned("ns1/a", "net1")], podState: "ending" }),
    want: ["del ns1/a@net1"],
  },
  {
    name: "a completed pod loses all attachments regardless of its list",
    given: facts([A, B], {
      owned: [owned("ns1/a", "net1"), owned("ns1/b", "net2", { state: "begun" })],
      podState: "ended",
    }),
    want: ["del ns1/b@net2", "del ns1/a@net1"],
  },
  {
    name: "a completed pod loses all attachments even if its list is unreadable",
    given: {
      ...facts([], { owned: [owned("ns1/a", "net1")], podState: "ended" }),
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
  { name: "nothing requested", before: {}, now: {}, want: [] },
  {
    name: "the same MAC in capitals",
    before: { mac: MAC },
    now: { mac: MAC.toUpperCase() },
    want: [],
  },
  { name: "another MAC", before: { mac: MAC }, now: { mac: "02:00:00:00:00:01" }, want: ["mac"] },
  { name: "a MAC added", before: {}, now: { mac: MAC }, want: ["mac"] },
  { name: "a MAC removed", before: { mac: MAC }, now: {}, want: [] },
  {
    name: "other addresses",
    before: { ips: ["10.0.0.1/24"] },
    now: { ips: ["10.0.0.2/24"] },
    want: ["ips"],
  },
  { name: "addresses removed", before: { ips: ["10.0.0.1/24"] }, now: {}, want: ["ips"] },
  { name: "an empty list of addresses", before: {}, now: { ips: [] }, want: [] },
  {
    name: "another claim",
    before: { "ipam-claim-reference": "one" },
    now: { "ipam-claim-reference": "two" },
    want: ["ipam-claim-reference"],
  },
  {
    name: "a claim that is no longer text",
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
  { name: "arguments removed", before: {}, now: { "cni-args": {} }, want: [] },
  {
    name: "different port mappings",
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
    name: "a different gateway",
    before: { "default-route": ["10.0.0.1"] },
    now: { "default-route": ["10.0.0.9"] },
    want: ["default-route"],
  },
  { name: "another device", before: { deviceID: "0000:00:03.0" }, now: {}, want: ["deviceID"] },
  {
    name: "only preferences",
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
