// SPDX-License-Identifier: Apache-2.0
// Migrates a guest on a network that passes only frames from the MAC that it assigned to the pod.
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import {
  eventually,
  FEW_PORTS,
  installThirdPartyCni,
  SecondNode,
  thirdPartyNetwork,
  vmManifest,
} from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { CHANGE_MS, expectReady, machine, ping, setAddress } from "../machine.ts";
import { ROOT } from "../standalone.ts";
import { moveByCommand } from "./two-nodes.ts";

const [VM, NETWORK, BRIDGE] = ["mover", "checked", "pbt-checked"] as const;
const [GUEST, HOST] = ["10.87.6.2", "10.87.6.1"] as const;
const HOST_MAC = "02:00:00:00:87:06";

const cni = installThirdPartyCni();
let node: SecondNode | undefined;

beforeAll(async () => {
  machine.apply(
    thirdPartyNetwork(cni, { behavior: "pins", name: NETWORK, bridge: BRIDGE }),
    vmManifest({
      name: VM,
      nics: [{ name: NETWORK, network: NETWORK }],
      pcieRootPorts: FEW_PORTS,
    }),
  );
  node = await SecondNode.start(machine, {
    name: "node-2",
    guestImage: join(ROOT, ".cache/guest"),
  });
  await machine.booted(VM);
});

afterAll(async () => {
  machine.deleteIfPresent("vm", VM);
  await node?.end();
  machine.deleteIfPresent("net-attach-def", NETWORK);
  execFileSync("ip", ["link", "del", BRIDGE]);
  cni.remove();
});

/** Returns the NIC's MAC, after the host has replied to the guest. */
async function expectTraffic(): Promise<string> {
  const { mac = "" } = await expectReady(VM, NETWORK);
  // The first request may be lost while switches learn where the guest is.
  await eventually(async () => (await ping(VM, HOST)).received === 3, { withinMs: CHANGE_MS });
  return mac;
}

test("the network passes the frames of a migrated guest, which keeps its MAC", async () => {
  // Without a MAC of its own, the bridge has that of one of its ports, and the guest would not know a new one for half a minute.
  execFileSync("ip", ["link", "set", BRIDGE, "address", HOST_MAC]);
  execFileSync("ip", ["address", "add", `${HOST}/24`, "dev", BRIDGE]);
  await expectReady(VM, NETWORK);
  await setAddress(VM, NETWORK, `${GUEST}/24`);
  const mac = await expectTraffic();
  const source = machine.findVmi(VM)?.status?.nodeName;
  await moveByCommand(VM);
  expect(machine.findVmi(VM)?.status?.nodeName).not.toBe(source);
  expect(await expectTraffic()).toBe(mac);
});
