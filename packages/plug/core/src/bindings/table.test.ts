// SPDX-License-Identifier: Apache-2.0
// What each way of binding says of itself, one beside the other.
import { expect, test } from "vitest";
import type { BindingKind } from "./binding.ts";
import { leftOf } from "./pod-wiring.ts";
import { BINDINGS } from "./table.ts";

const NAMES = { podInterfaceName: "pod1", bridgeName: "k6t-1", tapName: "tap1" };
const FACTS = { ...NAMES, mac: "02:00:00:00:00:01", mtu: 1450, podAddresses: [] };

interface Row {
  readonly kind: BindingKind;
  /** What stands in the pod. */
  readonly wiring: string;
  /** What the device opens where both a tap and the pod's NIC are there, and where only the NIC is. */
  readonly opens: readonly [string, string];
  /** What can be changed while the guest runs. */
  readonly live: readonly string[];
  readonly addresses: "guest" | "pod";
  /** Whether the NIC's addresses are written down, since wiring takes them. */
  readonly taken: boolean;
}

test("vhostuser needs nothing of the kernel", () => {
  const module = BINDINGS.vhostuser;
  expect(module.kind).toBe("vhostuser");
  expect(module.wiringOf(FACTS)).toBeUndefined();
  expect(module.tapOf(NAMES, new Set(["tap1"]))).toBe("");
  expect(module.leaseOf(FACTS)).toBeUndefined();
  expect(module.live).toEqual({ plug: true, link: false, network: false });
});

test.each<Row>([
  {
    kind: "bridge",
    wiring: "bridge",
    opens: ["tap1", "tap1"],
    live: ["plug", "link", "network"],
    addresses: "guest",
    taken: true,
  },
  {
    kind: "masquerade",
    wiring: "masquerade",
    opens: ["tap1", "tap1"],
    live: ["link"],
    addresses: "pod",
    taken: false,
  },
  {
    kind: "managedTap",
    wiring: "bridge",
    opens: ["tap1", "tap1"],
    live: ["plug", "link"],
    addresses: "guest",
    taken: true,
  },
  {
    kind: "tap",
    wiring: "tap",
    opens: ["tap1", "pod1"],
    live: ["plug", "link"],
    addresses: "guest",
    taken: false,
  },
  {
    kind: "hook",
    // Nobody asks for it: nothing is made.
    wiring: "tap",
    opens: ["tap1", "pod1"],
    live: [],
    addresses: "guest",
    taken: false,
  },
])("$kind", ({ kind, wiring, opens, live, addresses, taken }) => {
  const module = BINDINGS[kind];
  expect(module.kind).toBe(kind);
  const made = module.wiringOf(FACTS);
  expect(made).toMatchObject({ kind: wiring, podInterfaceName: "pod1", mac: FACTS.mac, mtu: 1450 });
  const left = made === undefined ? undefined : leftOf(made);
  expect(left?.kind).toBe(wiring);
  expect(left !== undefined && "bridgeName" in left).toBe(wiring !== "tap");
  const links = [["tap1", "pod1"], ["pod1"]].map((names) => new Set(names));
  expect(links.map((there) => module.tapOf(NAMES, there))).toEqual(opens);
  const changes = (["plug", "link", "network"] as const).filter((what) => module.live[what]);
  expect(changes).toEqual(live);
  expect([module.addressesOf, module.takesAddresses]).toEqual([addresses, taken]);
});
