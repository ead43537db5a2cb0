// SPDX-License-Identifier: Apache-2.0
import { aVmi } from "@patchbay/support";
import { expect, test } from "vitest";
import { trafficFamilies, type DirectionCounts, type LinkCounts } from "./traffic.ts";

function counts(first: number): DirectionCounts {
  return { bytes: first, packets: first + 1, errors: first + 2, dropped: first + 3 };
}

/** What the guest sends comes in at the tap. */
const TAP: LinkCounts = { name: "tap1", received: counts(10), transmitted: counts(20) };
const UPLINK: LinkCounts = { name: "eth0", received: counts(1000), transmitted: counts(2000) };

function printed(taps: ReadonlyMap<string, string>, links = [UPLINK, TAP]): readonly string[] {
  const vms = [{ vmi: aVmi(), taps, links }];
  return trafficFamilies(vms, "node1").flatMap(({ name, samples }) =>
    samples.map(
      ({ labels, value }) => `${name}${JSON.stringify(Object.values(labels))} ${String(value)}`,
    ),
  );
}

test("maps tap transmit to guest receive, with KubeVirt's metric names", () => {
  const nic = '["node1","default","vm1","blue"]';
  const both = (type: string): string => `["node1","default","vm1","blue","${type}"]`;
  expect(printed(new Map([["blue", "tap1"]]))).toEqual([
    `kubevirt_vmi_network_receive_bytes_total${nic} 20`,
    `kubevirt_vmi_network_receive_packets_total${nic} 21`,
    `kubevirt_vmi_network_receive_errors_total${nic} 22`,
    `kubevirt_vmi_network_receive_packets_dropped_total${nic} 23`,
    `kubevirt_vmi_network_transmit_bytes_total${nic} 10`,
    `kubevirt_vmi_network_transmit_packets_total${nic} 11`,
    `kubevirt_vmi_network_transmit_errors_total${nic} 12`,
    `kubevirt_vmi_network_transmit_packets_dropped_total${nic} 13`,
    `kubevirt_vmi_network_traffic_bytes_total${both("rx")} 20`,
    `kubevirt_vmi_network_traffic_bytes_total${both("tx")} 10`,
  ]);
});

test("has no counters for a missing tap or for other links", () => {
  expect(printed(new Map([["blue", "tap2"]]))).toEqual([]);
  expect(printed(new Map())).toEqual([]);
});

test("has KubeVirt's labels", () => {
  const [family] = trafficFamilies(
    [{ vmi: aVmi(), taps: new Map([["blue", "tap1"]]), links: [TAP] }],
    "node1",
  );
  expect(family?.type).toBe("counter");
  expect(Object.keys(family?.samples[0]?.labels ?? {})).toEqual([
    "node",
    "namespace",
    "name",
    "interface",
  ]);
});
