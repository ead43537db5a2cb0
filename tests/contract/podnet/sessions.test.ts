// SPDX-License-Identifier: Apache-2.0
// A pass stays in its own pod's namespace when its session ends. Uses real namespaces and descriptors.
import { closeSync, fstatSync, openSync } from "node:fs";
import { createLinkWatch } from "@patchbay/os";
import type { Launcher, LauncherPod, Launchers, NetnsHandle } from "@patchbay/core/interfaces";
import { createFakeHypervisor } from "@patchbay/libvirt/testing";
import { createSilentLogger } from "@patchbay/telemetry";
import { createSessions } from "@patchbay/virt-handler/testing";
import { afterEach, beforeEach, expect, test } from "vitest";
import { MAC, makeNetwork, Namespaces, PREFIX, WIRING } from "./links.ts";
import { createFakeVhostSockets } from "@patchbay/os/testing";
import { run } from "@patchbay/support";

const PODS = ["one", "two"];
const SOCKET_FD = 7;

function netnsOf(pod: string): NetnsHandle {
  const fd = openSync(`/run/netns/${PREFIX}-${pod}`, "r");
  return { fd, inode: fstatSync(fd, { bigint: true }).ino.toString() };
}

function openLauncher({ name }: LauncherPod): Promise<Launcher> {
  const netns = netnsOf(name);
  return Promise.resolve({
    socketFd: SOCKET_FD,
    directoryFd: -1,
    netns,
    ended: new Promise<void>(() => undefined),
    close: () => {
      closeSync(netns.fd);
    },
  });
}

function podOf(name: string): LauncherPod {
  return { uid: name, namespace: "default", name };
}

const launchers: Launchers = { open: openLauncher, watch: () => undefined };
const podNetwork = makeNetwork();
const namespaces = new Namespaces();

function linksIn(pod: string): readonly string[] {
  const links = JSON.parse(run("ip", "-n", `${PREFIX}-${pod}`, "-j", "link")) as {
    ifname: string;
  }[];
  return links.map(({ ifname }) => ifname);
}

beforeEach(() => {
  for (const netns of PODS.map((pod) => namespaces.add(pod))) {
    // Both pods have a NIC of that name, like two VMs with one network each.
    const nic = ["link", "add", "pod1", "address", MAC, "type", "veth", "peer", "name", "far"];
    run("ip", "-n", netns, ...nic);
  }
});
afterEach(() => {
  namespaces.close();
});

test("a session that ends during a pass does not lead it into another pod's namespace", async () => {
  const hypervisor = createFakeHypervisor();
  hypervisor.daemonAt({ kind: "socket", fd: SOCKET_FD });
  const sessions = createSessions({
    launchers,
    hypervisor,
    linkWatch: createLinkWatch(),
    vhostSockets: createFakeVhostSockets(),
    log: createSilentLogger(),
  });
  const ignore = { wake: () => undefined, onEvent: () => undefined };
  await sessions.use(podOf("one"), ignore, async (one) => {
    await podNetwork.listLinks(one.launcher.netns);
    sessions.close(podOf("one"));
    await new Promise(setImmediate);
    await sessions.use(podOf("two"), ignore, async (two) => {
      expect(two.launcher.netns.fd).not.toBe(one.launcher.netns.fd);
      await podNetwork.wireTap(one.launcher.netns, WIRING);
    });
  });
  sessions.closeAll();
  await new Promise(setImmediate);
  expect(linksIn("one")).toContain("tap1");
  expect(linksIn("two")).not.toContain("tap1");
});

test("rejects a namespace whose descriptor was reused", async () => {
  const one = netnsOf("one");
  closeSync(one.fd);
  const two = netnsOf("two");
  try {
    expect(two.fd).toBe(one.fd);
    await expect(podNetwork.wireTap(one, WIRING)).rejects.toMatchObject({
      code: "OS_DESCRIPTOR_STALE",
    });
  } finally {
    closeSync(two.fd);
  }
  expect(linksIn("two")).not.toContain("tap1");
});
