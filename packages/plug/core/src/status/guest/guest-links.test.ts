// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import type { LinkView } from "../../guest/view.ts";
import { guestLinkStatuses, unlistedGuestLinks } from "./guest-links.ts";

function aLink(index: number): LinkView {
  return {
    mac: `06:00:00:00:00:${String(index)}`,
    name: `veth${String(index)}`,
    ipv4: { value: ["172.17.0.1"] },
    ipv6: { value: undefined },
  };
}

const MANY = Array.from({ length: 2_000 }, (_, index) => aLink(index));

test("a link of the guest's own has no name, and what the guest said of it", () => {
  const tunnel = { name: "tun0", ipv4: { value: [] }, ipv6: { value: ["fd00::1", "fd00::2"] } };
  expect(guestLinkStatuses([aLink(1), tunnel])).toEqual([
    {
      infoSource: "guest-agent",
      ipAddress: "172.17.0.1",
      ipAddresses: ["172.17.0.1"],
      mac: "06:00:00:00:00:1",
      interfaceName: "veth1",
    },
    {
      infoSource: "guest-agent",
      ipAddress: "fd00::1",
      ipAddresses: ["fd00::1", "fd00::2"],
      interfaceName: "tun0",
    },
  ]);
});

test("of 2,000 the first ten are told, and how many are not", () => {
  expect(guestLinkStatuses(MANY).map(({ interfaceName }) => interfaceName)).toEqual(
    MANY.slice(0, 10).map(({ name }) => name),
  );
  expect(unlistedGuestLinks(MANY)).toEqual({ unlistedGuestInterfaces: 1_990 });
  expect(unlistedGuestLinks(MANY.slice(0, 10))).toEqual({});
});
