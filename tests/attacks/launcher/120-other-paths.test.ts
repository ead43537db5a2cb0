// SPDX-License-Identifier: Apache-2.0
// Files and sockets that a compromised source launcher sends in place of its VM's own.
import { TwoNodes } from "@patchbay/virt-handler/testing";
import { afterEach, beforeEach, expect, test } from "vitest";

let nodes: TwoNodes;
beforeEach(async () => {
  nodes = new TwoNodes();
  await nodes.start("node1");
  await nodes.start("node2");
  await nodes.until(async () => (await nodes.vmi()).status?.phase === "Running");
});
afterEach(() => nodes.stopAll());

function added(device: string): (xml: string) => string {
  return (xml) => xml.replace("</devices>", `${device}</devices>`);
}

test.each([
  {
    what: "a disk of the node",
    forge: added('<disk type="block"><source dev="/dev/sda"/></disk>'),
    path: "/dev/sda",
  },
  {
    what: "another file as the console log",
    forge: (xml: string) => xml.replaceAll("/run/launcher/serial0.log", "/run/secrets/log"),
    path: "/run/secrets/log",
  },
  {
    what: "a kernel",
    forge: (xml: string) => xml.replace("</os>", "<kernel>/proc/self/mem</kernel></os>"),
    path: "/proc/self/mem",
  },
  {
    what: "another program's socket",
    forge: added('<channel type="unix"><source mode="connect" path="/run/other.sock"/></channel>'),
    path: "/run/other.sock",
  },
  {
    what: "a directory of the node",
    forge: added('<filesystem type="mount"><source dir="/etc"/><target dir="x"/></filesystem>'),
    path: "/etc",
  },
])("attack 120: does not resume a guest with $what", async ({ forge, path }) => {
  nodes.daemon("node1").forge = forge;
  await nodes.open();
  await nodes.until(async () => {
    const [, there] = [await nodes.stateOn("node1"), await nodes.stateOn("node2")];
    const { targetNodeDomainFaults = [] } = await nodes.migrationState();
    return there === "paused" && targetNodeDomainFaults.length > 0;
  });
  expect((await nodes.migrationState()).targetNodeDomainFaults).toEqual([
    `${path}, which the VM does not use`,
  ]);
  await nodes.clock.advance(60_000);
  expect(await nodes.stateOn("node2")).toBe("paused");
  expect(await nodes.migrationState()).not.toHaveProperty("targetNodeDomainReadyTimestamp");
});
