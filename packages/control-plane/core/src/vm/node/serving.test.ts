// SPDX-License-Identifier: Apache-2.0
// One DHCP server for each NIC: when each starts, changes and stops.
import { describe, expect, test } from "vitest";
import { buildServedNics, type ServedNic } from "../../nics/addresses/served-nic.ts";
import type { IfaceFacts } from "../../nics/facts.ts";
import { anIface, factsOf, live, WIRED } from "../../testing/node-scene.ts";

function onNetwork(name: string, address: string): IfaceFacts {
  const iface = anIface({ name, attachment: "Attached", links: WIRED, device: {} });
  const { podInterfaceName } = iface;
  return {
    ...iface,
    remembered: { podInterfaceName, index: 3, addresses: [address], routes: [] },
  };
}

const [A, B] = [onNetwork("a", "10.0.2.2/24"), onNetwork("b", "10.0.2.2/24")];
const [SERVED_A, SERVED_B] = buildServedNics(factsOf([A, B]));

function serving(ifaces: readonly IfaceFacts[], served: readonly ServedNic[]): readonly string[] {
  return live(ifaces, { served }).flatMap((action) => {
    if (action.kind === "serveAddresses") return [`serve ${action.nic.iface}`];
    return action.kind === "stopServing" ? [`stop ${action.bridgeName}`] : [];
  });
}

describe("the DHCP servers of a VM", () => {
  if (SERVED_A === undefined || SERVED_B === undefined) throw new Error("nothing is served");
  test.each([
    {
      name: "are started, one for each NIC",
      ifaces: [A, B],
      served: [],
      want: ["serve a", "serve b"],
    },
    { name: "continue to run", ifaces: [A, B], served: [SERVED_B, SERVED_A], want: [] },
    {
      name: "continue to run beside a NIC that is being plugged",
      ifaces: [A, B],
      served: [SERVED_A],
      want: ["serve b"],
    },
    {
      name: "continue to run beside a NIC that is being unplugged",
      ifaces: [A],
      served: [SERVED_A, SERVED_B],
      want: [`stop ${SERVED_B.bridgeName}`],
    },
    {
      name: "change only for the changed NIC",
      ifaces: [onNetwork("a", "10.0.2.9/24"), B],
      served: [SERVED_A, SERVED_B],
      want: ["serve a"],
    },
  ])("$name", ({ ifaces, served, want }) => {
    expect(serving(ifaces, served)).toEqual(want);
  });
});
