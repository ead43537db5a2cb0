// SPDX-License-Identifier: Apache-2.0
// The address that is probed on the network, and what counts as the VM's own.
import type { VirtualMachineInstance } from "@patchbay/api";
import { aVmi } from "@patchbay/support";
import { describe, expect, test } from "vitest";
import { anIface, IN_USE, MAC } from "../testing/node-scene.ts";
import { collectPathFacts, planProbes, type PathSources } from "./collect.ts";

const NETWORK = "default/blue";

interface ObservedNic {
  readonly name: string;
  readonly mac: string;
  readonly address: string;
  readonly infoSource: string;
}

/** A VMI whose NICs are all on one network. */
function vmiWith(vmName: string, ...nics: readonly ObservedNic[]): VirtualMachineInstance {
  const attachments = nics.map(({ name, mac }) => ({
    name,
    mac,
    podInterfaceName: `pod0${name}`,
    state: "Attached" as const,
    networkName: NETWORK,
  }));
  const interfaces = nics.map(({ name, mac, address, infoSource }) => ({
    name,
    mac,
    infoSource,
    ipAddresses: [address],
  }));
  const vmi = aVmi({ status: { attachments, interfaces } });
  return { ...vmi, metadata: { ...vmi.metadata, name: vmName } };
}

const OWN: ObservedNic = { name: "a", mac: MAC, address: "10.9.0.1", infoSource: "guest-agent" };
const SECOND: ObservedNic = { ...OWN, name: "b", mac: "02:00:00:00:00:0B", address: "10.9.0.2" };
const OTHER: ObservedNic = { ...OWN, mac: "02:00:00:00:00:0c", address: "10.9.0.3" };

function sources(own: VirtualMachineInstance, ...others: VirtualMachineInstance[]): PathSources {
  const iface = anIface({ attachment: "Attached", links: IN_USE });
  const attachment = iface.attachment && { ...iface.attachment, networkName: NETWORK };
  return {
    iface: { ...iface, ...(attachment && { attachment }) },
    vmis: [own, ...others],
    vmi: own,
    isPaused: false,
  };
}

describe("the guest to probe without a known gateway", () => {
  test.each([
    { name: "is a guest whose agent reports the address", nics: [OTHER], want: "10.9.0.3" },
    {
      name: "is not a guest with an address that was only assigned",
      nics: [{ ...OTHER, infoSource: "domain, multus-status" }],
      want: undefined,
    },
  ])("$name", ({ nics, want }) => {
    const all = sources(vmiWith("own", OWN), vmiWith("other", ...nics));
    const question = planProbes(all, collectPathFacts(all));
    expect(question?.target).toEqual(
      want === undefined ? undefined : { address: want, isGuest: true },
    );
  });

  test("is not another NIC of the same VM", () => {
    const all = sources(vmiWith("own", OWN, SECOND));
    expect(planProbes(all, collectPathFacts(all))?.target).toBeUndefined();
  });
});

test("lists the MACs of all NICs of the VM, in lower case", () => {
  const all = sources(vmiWith("own", OWN, SECOND));
  expect(collectPathFacts(all).vmMacs).toEqual([MAC, "02:00:00:00:00:0b"]);
});

test("detects a paused guest", () => {
  const all = { ...sources(vmiWith("own", OWN)), isPaused: true };
  expect(collectPathFacts(all).isPaused).toBe(true);
});
