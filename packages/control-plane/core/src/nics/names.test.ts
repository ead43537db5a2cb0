// SPDX-License-Identifier: Apache-2.0
// Where the names of links are those of KubeVirt v1.9, and where they differ on purpose.
import type { Iface, Network, VirtualMachineInstance } from "@patchbay/api";
import type { NetworkStatus } from "@patchbay/api/annotations";
import { aVmi } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { attachmentStatuses } from "../status/vmi.ts";
import { planPodNetworks } from "../vm/pod/pod-networks.ts";
import { collectIfaceFacts } from "./phase.ts";
import { EMPTY_GUEST_VIEW } from "../guest/agent-view.ts";
import {
  isOwnPodInterfaceName,
  parseAlias,
  buildIfaceNames,
  buildPodInterfaceName,
  buildLimiterName,
  parseLinkName,
  parseTapName,
} from "./names.ts";
import { withNics } from "./nics.ts";

function secondary(name: string, networkName: string): Network {
  return { name, multus: { networkName } };
}

function aVmiOn(networks: readonly Network[] | undefined, ifaces?: readonly string[]) {
  const vmi = aVmi();
  if (networks === undefined) {
    return { ...vmi, spec: { domain: {} } };
  }
  const declared = ifaces ?? networks.map(({ name }) => name);
  const nics = declared.map((name): Iface => ({ name, bridge: {} }));
  return { ...vmi, spec: withNics(vmi.spec, networks, nics) };
}

/** What virt-handler calls the NICs of a VMI in a pod with these statuses, by name of the iface. */
function schemeOf(
  vmi: VirtualMachineInstance,
  networkStatus: readonly NetworkStatus[] = [],
): Readonly<Record<string, string>> {
  const pod = { elements: [], networkStatus, errors: {}, podIps: [] };
  const attachments = [...attachmentStatuses({ vmi, bindings: {} }, pod)];
  const known = { links: [], nics: [], guest: EMPTY_GUEST_VIEW, bindings: {} };
  const sources = { vmi: { ...vmi, status: { attachments } }, ...known };
  return Object.fromEntries(
    collectIfaceFacts(sources).map(({ name, podInterfaceName }) => [name, podInterfaceName]),
  );
}

const MULTUS_DEFAULT: readonly Network[] = [
  { name: "network0", multus: { networkName: "default/nad0", default: true } },
  secondary("network1", "default/nad1"),
  secondary("network2", "default/nad2"),
];
const RED_AND_GREEN = [secondary("red", "rednet"), secondary("green", "greennet")];
const DEFAULT_BLUE_RED: readonly Network[] = [
  { name: "default", pod: {} },
  secondary("blue", "test-br"),
  secondary("red", "test-br"),
];
const OVERLAY: Network = {
  name: "overlay-network",
  multus: { networkName: "pod-net-br", default: true },
};

// Source: KubeVirt v1.9.0-rc.2 pkg/network/namescheme/networknamescheme_test.go
describe("NICs in the pod have KubeVirt's names", () => {
  test.each([
    { name: "hashed scheme, no networks", scheme: schemeOf(aVmiOn(undefined)), kubevirt: {} },
    {
      name: "hashed scheme, multus default plus two secondaries",
      scheme: schemeOf(aVmiOn(MULTUS_DEFAULT)),
      kubevirt: { network0: "eth0", network1: "poda7662f44d65", network2: "pod27f4a77f94e" },
    },
    {
      name: "scheme from empty network-status is hashed",
      scheme: schemeOf(aVmiOn(RED_AND_GREEN), []),
      kubevirt: { red: "podb1f51a511f1", green: "podba4788b226a" },
    },
    {
      name: "ordinal name of an unknown network",
      scheme: schemeOf(aVmiOn(DEFAULT_BLUE_RED, ["blah"])),
      kubevirt: { blah: "" },
    },
    {
      name: "hashed name of a multus default network",
      scheme: { "overlay-network": buildPodInterfaceName(OVERLAY) },
      kubevirt: { "overlay-network": "eth0" },
    },
  ])("$name", ({ scheme, kubevirt }) => {
    expect(scheme).toEqual(kubevirt);
  });
});

/** Names in a pod's annotation after an iface `red` was added to a VMI whose pod asks for NICs of these names. */
function requestedName(interfaces: readonly string[]): readonly (string | undefined)[] {
  const elements = interfaces.map((link) => ({ name: "other", interface: link }));
  const vmi = aVmiOn([secondary("red", "rednet")]);
  return planPodNetworks({ vmi, bindings: {} }, elements).map((element) => element.interface);
}

const ORDINAL: readonly NetworkStatus[] = [
  { name: "default/rednet", interface: "net1" },
  { name: "default/greennet", interface: "net2" },
];
const NO_ORDINALS =
  "ordinal names are KubeVirt's before v0.59; each pod that Patchbay plugs into is one that it made, with hashed names";
const NO_DETECTION =
  "no scheme is detected: whatever has another name is somebody else's and stays, and a new NIC gets its hash";

// Source: KubeVirt v1.9.0-rc.2 pkg/network/namescheme/networknamescheme_test.go, pkg/network/link/names_test.go
describe("names that deliberately differ from KubeVirt's", () => {
  test.each([
    {
      name: "ordinal scheme, multus default plus two secondaries",
      got: schemeOf(aVmiOn(MULTUS_DEFAULT)),
      kubevirt: { network0: "eth0", network1: "net1", network2: "net2" },
      ours: { network0: "eth0", network1: "poda7662f44d65", network2: "pod27f4a77f94e" },
      why: NO_ORDINALS,
    },
    {
      name: "scheme from ordinal network-status is ordinal",
      got: schemeOf(aVmiOn(RED_AND_GREEN), ORDINAL),
      kubevirt: { red: "net1", green: "net2" },
      ours: { red: "podb1f51a511f1", green: "podba4788b226a" },
      why: NO_ORDINALS,
    },
    {
      name: "ordinal detection, primary plus net1 and net2",
      got: requestedName(["eth0", "net1", "net2"]),
      kubevirt: true,
      ours: ["eth0", "net1", "net2", "podb1f51a511f1"],
      why: NO_DETECTION,
    },
    {
      name: "ordinal detection, empty list",
      got: requestedName([]),
      kubevirt: false,
      ours: ["podb1f51a511f1"],
      why: NO_DETECTION,
    },
    {
      name: "moved pod NIC name of net12",
      got: buildIfaceNames("n1", "net12"),
      kubevirt: "net12-nic",
      ours: {
        podInterfaceName: "net12",
        bridgeName: "k6t-net12",
        tapName: "tap12",
        alias: "ua-n1",
      },
      why: "the NIC keeps CNI's name and the guest's MAC: no link is renamed, so CNI DEL finds what it made",
    },
  ])("$name: $why", ({ got, kubevirt, ours }) => {
    expect(got).toEqual(ours);
    expect(ours).not.toEqual(kubevirt);
  });
});

// Source: KubeVirt v1.9.0-rc.2 pkg/network/link/names_test.go
describe("names of bridge and tap for a NIC in the pod", () => {
  test.each([
    {
      name: "tap for an ordinal secondary",
      podInterface: "net1",
      kubevirt: { tapName: "tap1" },
    },
    {
      name: "bridge name of eth0",
      podInterface: "eth0",
      kubevirt: { bridgeName: "k6t-eth0" },
    },
    {
      name: "bridge name of pod16477688c0e",
      podInterface: "pod16477688c0e",
      kubevirt: { bridgeName: "k6t-16477688c0e" },
    },
  ])("$name", ({ podInterface, kubevirt }) => {
    expect(buildIfaceNames("nic", podInterface)).toMatchObject(kubevirt);
  });

  test.each([
    { podInterface: "eth0", tapName: "tap0" },
    { podInterface: "pod16477688c0e", tapName: "tap16477688c0e" },
  ])("tap of $podInterface", ({ podInterface, tapName }) => {
    expect(buildIfaceNames("nic", podInterface).tapName).toBe(tapName);
  });

  test("names of drivers are hashed, so that links have valid names of their own", () => {
    const nics = ["eth0", "dra0", "abc0", "net0", "pod0", "podinterface-12", "dra0.100", "DRA0"];
    const names = nics.flatMap((nic) => {
      const { bridgeName, tapName } = buildIfaceNames("nic", nic);
      return [bridgeName, ...(nic === "net0" ? [] : [tapName])];
    });
    expect(new Set(names).size).toBe(names.length);
    expect(Math.max(...names.map((name) => name.length))).toBeLessThanOrEqual(15);
  });

  test.each([
    { name: "pod16477688c0e", want: true },
    { name: "bnd16477688c0e", want: true },
    { name: "bndeth0", want: true },
    { name: "bndeth1", want: false },
    { name: "xbnd16477688c0e", want: false },
    { name: "net1", want: false },
    { name: "eth0", want: false },
    { name: "xpod16477688c0e", want: false },
    { name: "pod16477688c0ef", want: false },
  ])("$name may be removed by Patchbay: $want", ({ name, want }) => {
    expect(isOwnPodInterfaceName(name)).toBe(want);
  });
});

test("retains the recorded name of a NIC with any current scheme", () => {
  const vmi = aVmiOn(RED_AND_GREEN);
  const identity = { networkName: "default/rednet", podInterfaceName: "net1" };
  const attachments = [{ name: "red", ...identity, state: "Requested" as const }];
  expect(schemeOf({ ...vmi, status: { attachments } }, ORDINAL)).toEqual({
    red: "net1",
    green: "podba4788b226a",
  });
});

describe("maps a device alias to its interface", () => {
  test.each(["default", "blue", "ua-x"])("%s", (name) => {
    for (const network of [{ name, pod: {} }, secondary(name, "nad")]) {
      const podInterfaceName = buildPodInterfaceName(network);
      const { alias, tapName } = buildIfaceNames(name, podInterfaceName);
      expect(parseAlias(alias)).toBe(name);
      expect(parseTapName(tapName)).toBe(podInterfaceName);
    }
  });

  test("maps no alias that libvirt assigned", () => {
    expect(parseAlias("net0")).toBeUndefined();
  });
});

test.each([
  { tapName: "tap0", limiter: "lim0", podNic: "eth0" },
  { tapName: "tap0123456789a", limiter: "lim0123456789a", podNic: "pod0123456789a" },
])(
  "the limiter of $tapName is $limiter, and belongs to $podNic",
  ({ tapName, limiter, podNic }) => {
    expect(buildLimiterName(tapName)).toBe(limiter);
    expect(parseLinkName(limiter)).toBe(podNic);
    expect(parseLinkName(`${limiter}f`)).toBeUndefined();
  },
);
