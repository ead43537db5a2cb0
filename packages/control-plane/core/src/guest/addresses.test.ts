// SPDX-License-Identifier: Apache-2.0
// Whose word on the addresses of an iface counts, by how it is bound.
import type { Attachment, IfaceStatus } from "@patchbay/api";
import { describe, expect, test } from "vitest";
import type { BindingKind } from "../nics/bindings/binding.ts";
import { NO_LINKS, type GuestNicFacts, type IfaceFacts } from "../nics/facts.ts";
import { buildAddressFields } from "./addresses.ts";

const NOW = "2026-01-01T01:00:00.000Z";
const EARLIER = "2026-01-01T00:00:00.000Z";

interface Options {
  readonly binding?: BindingKind;
  readonly pod?: readonly string[];
  readonly guest?: GuestNicFacts;
  /** Addresses of the pod NIC that its server knows. */
  readonly served?: readonly string[];
  readonly reported?: IfaceStatus;
  readonly learned?: readonly string[];
}

function factsOf(options: Options): IfaceFacts {
  const { binding = "bridge", pod, guest, served, reported, learned } = options;
  const attached: Attachment = { name: "one", podInterfaceName: "pod1", state: "Attached" };
  const device = { alias: "ua-one", mac: "02:00:00:00:00:01", linkUp: true, queues: 1 };
  return {
    name: "one",
    podInterfaceName: "pod1",
    binding: { kind: binding },
    links: NO_LINKS,
    ...(pod === undefined ? {} : { attachment: { ...attached, ips: [...pod] } }),
    ...(served === undefined
      ? {}
      : { remembered: { podInterfaceName: "pod1", index: 2, addresses: served, routes: [] } }),
    ...(learned === undefined ? {} : { learned, device }),
    ...(guest === undefined ? {} : { device: { ...device, guest } }),
    ...(reported === undefined ? {} : { reported }),
  };
}

function told(options: Options): readonly unknown[] {
  const { ipAddress, ipAddresses, addressInfo } = buildAddressFields(factsOf(options), {
    now: NOW,
  });
  expect(ipAddress).toBe(ipAddresses?.[0]);
  return [ipAddresses, addressInfo?.source];
}

describe("addresses are", () => {
  test.each([
    { name: "unset if neither pod nor guest reports any", given: {}, want: [undefined, undefined] },
    {
      name: "unset for a pod NIC without addresses",
      given: { pod: [] },
      want: [undefined, undefined],
    },
    {
      name: "learned ones, IPv4 first, if nothing else reports any",
      given: { learned: ["fd00::2", "10.0.0.3", "10.0.0.2"] },
      want: [["10.0.0.3", "10.0.0.2", "fd00::2"], "learned"],
    },
    {
      name: "CNI's rather than learned ones",
      given: { pod: ["10.0.0.1"], learned: ["10.0.0.2"] },
      want: [["10.0.0.1"], "pod"],
    },
    {
      name: "the guest agent's rather than learned ones",
      given: { guest: { ipv4: [] }, learned: ["10.0.0.2"] },
      want: [undefined, "guest-agent"],
    },
    {
      name: "CNI's until the guest agent reports, in the pod's order",
      given: { pod: ["fd00::1", "10.0.0.1"] },
      want: [["fd00::1", "10.0.0.1"], "pod"],
    },
    {
      name: "the single IPv4 address that DHCP assigns until the guest agent reports",
      given: { pod: ["10.0.0.1", "10.0.1.1", "fd00::1"], served: ["10.0.0.1/24", "10.0.1.1/24"] },
      want: [["10.0.0.1", "fd00::1"], "pod"],
    },
    {
      name: "both IPv4 addresses if the guest configured the second itself",
      given: {
        pod: ["10.0.0.1", "10.0.1.1"],
        served: ["10.0.0.1/24", "10.0.1.1/24"],
        guest: { ipv4: ["10.0.1.1", "10.0.0.1"] },
      },
      want: [["10.0.0.1", "10.0.1.1"], "guest-agent"],
    },
    {
      name: "the guest's, in the pod's order of families, with the pod's addresses first",
      given: {
        pod: ["fd00::1", "10.0.0.1"],
        guest: { ipv4: ["10.0.0.9", "10.0.0.1"], ipv6: ["fe80::1", "fd00::1"] },
      },
      want: [["fd00::1", "10.0.0.1", "10.0.0.9", "fe80::1"], "guest-agent"],
    },
    {
      name: "CNI's while the guest's addresses are unknown",
      given: { pod: ["10.0.0.1"], guest: { name: "eth0" } },
      want: [["10.0.0.1"], "pod"],
    },
    {
      name: "all of the guest's once the guest agent reports",
      given: { pod: ["10.0.0.1"], guest: { ipv4: ["10.0.0.9", "10.0.0.1"], ipv6: ["fe80::1"] } },
      want: [["10.0.0.1", "10.0.0.9", "fe80::1"], "guest-agent"],
    },
    {
      name: "the guest's in the family that the guest agent reports",
      given: { pod: ["10.0.0.1", "fd00::1"], guest: { ipv4: ["10.0.0.9"] } },
      want: [["10.0.0.9", "fd00::1"], "pod, guest-agent"],
    },
    {
      name: "unset if the agent reports none, with the agent as the source",
      given: { pod: ["10.0.0.1"], guest: { ipv4: [], ipv6: [] } },
      want: [undefined, "guest-agent"],
    },
    {
      name: "the pod's behind masquerade, regardless of the guest's",
      given: {
        binding: "masquerade",
        pod: ["10.244.0.7", "fd00::7"],
        guest: { ipv4: ["10.0.2.2"], ipv6: ["fd10:0:2::2"] },
      },
      want: [["10.244.0.7", "fd00::7"], "pod"],
    },
    {
      name: "the guest's behind masquerade in a family that the pod lacks, except link-local ones",
      given: {
        binding: "masquerade",
        pod: ["10.244.0.7"],
        guest: { ipv4: ["10.0.2.2"], ipv6: ["fe80::1", "fd10:0:2::2"] },
      },
      want: [["10.244.0.7", "fd10:0:2::2"], "pod, guest-agent"],
    },
    {
      name: "only the pod's behind masquerade if the guest has only a link-local address",
      given: { binding: "masquerade", pod: ["10.244.0.7"], guest: { ipv6: ["fe80::1"] } },
      want: [["10.244.0.7"], "pod"],
    },
    {
      name: "the guest's with a registered binding",
      given: { binding: "tap", pod: ["10.0.0.1"], guest: { ipv4: ["10.0.0.9"] } },
      want: [["10.0.0.9"], "guest-agent"],
    },
    {
      name: "CNI's without prefixes, duplicates and invalid addresses",
      given: { pod: ["10.0.0.1/24", "10.0.0.1", "none"] },
      want: [["10.0.0.1"], "pod"],
    },
  ] as const)("$name", ({ given: input, want }) => {
    expect(told(input)).toEqual(want);
  });
});

describe("reports since when they are reported", () => {
  const reported: IfaceStatus = {
    name: "one",
    ipAddresses: ["10.0.0.1"],
    addressInfo: { source: "guest-agent", since: EARLIER },
  };
  test.each([
    {
      name: "now for the first report",
      guest: { ipv4: ["10.0.0.1"] },
      reported: { name: "one" },
      want: NOW,
    },
    { name: "unchanged for the same addresses", guest: { ipv4: ["10.0.0.1"] }, want: EARLIER },
    { name: "now if an address changed", guest: { ipv4: ["10.0.0.1", "10.0.0.2"] }, want: NOW },
    {
      name: "now if the source changed",
      guest: { ipv4: ["10.0.0.1"] },
      reported: { ...reported, addressInfo: { source: "pod", since: EARLIER } } as const,
      want: NOW,
    },
  ])("$name", ({ guest, reported: last = reported, want }) => {
    expect(
      buildAddressFields(factsOf({ reported: last, guest }), { now: NOW }).addressInfo?.since,
    ).toBe(want);
  });
});

describe("reports that the agent does not respond", () => {
  test.each([
    { name: "for the guest's addresses", sketch: { guest: { ipv4: ["10.0.0.1"] } }, want: EARLIER },
    { name: "not for the pod's", sketch: { pod: ["10.0.0.1"] }, want: undefined },
  ])("$name", ({ sketch: options, want }) => {
    const moment = { now: NOW, silentSince: EARLIER };
    expect(buildAddressFields(factsOf(options), moment).addressInfo?.silentSince).toBe(want);
  });
});
