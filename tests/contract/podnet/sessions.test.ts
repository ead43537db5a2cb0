// SPDX-License-Identifier: Apache-2.0
// Does a pass stay in its own pod's namespace when its session ends under it? On real namespaces and descriptors.
import { execFileSync } from "node:child_process";
import { closeSync, fstatSync, openSync } from "node:fs";
import { createClock, createProcessRunner } from "@patchbay/os";
import { createPodNetwork } from "@patchbay/podnet";
import type { Launcher, LauncherPod, Launchers, NetnsHandle, TapWiring } from "@patchbay/ports";
import { createFakeHypervisor } from "@patchbay/ports/testing";
import { createSilentLogger } from "@patchbay/telemetry";
import { createSessions } from "@patchbay/virt-handler/testing";
import { afterEach, beforeEach, expect, test } from "vitest";

const PREFIX = `pbs${String(process.pid)}`;
const PODS = ["one", "two"];
const SOCKET_FD = 7;
const MAC = "02:00:00:00:5e:01";
const WIRING: TapWiring = {
  podInterfaceName: "pod1",
  bridgeName: "k6t-1",
  tapName: "tap1",
  mac: MAC,
  mtu: 1500,
  owner: 107,
  queues: 1,
};

function ip(...args: readonly string[]): string {
  return execFileSync("ip", args, { encoding: "utf8", timeout: 20_000, stdio: "pipe" });
}

function netnsOf(pod: string): NetnsHandle {
  const fd = openSync(`/run/netns/${PREFIX}-${pod}`, "r");
  return { fd, inode: fstatSync(fd, { bigint: true }).ino.toString() };
}

function openLauncher({ name }: LauncherPod): Promise<Launcher> {
  const netns = netnsOf(name);
  return Promise.resolve({
    socketFd: SOCKET_FD,
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
const podNetwork = createPodNetwork({ runner: createProcessRunner(), clock: createClock() });

/** Names of the links in a pod. */
function linksIn(pod: string): readonly string[] {
  const links = JSON.parse(ip("-n", `${PREFIX}-${pod}`, "-j", "link")) as { ifname: string }[];
  return links.map(({ ifname }) => ifname);
}

beforeEach(() => {
  for (const pod of PODS) {
    const netns = `${PREFIX}-${pod}`;
    ip("netns", "add", netns);
    // Both pods have a NIC of that name, as two VMs with one network each have.
    ip("-n", netns, "link", "add", "pod1", "address", MAC, "type", "veth", "peer", "name", "far");
  }
});
afterEach(() => {
  for (const pod of PODS) ip("netns", "del", `${PREFIX}-${pod}`);
});

test("a session that ends under a pass does not lead it into another pod's namespace", async () => {
  const hypervisor = createFakeHypervisor();
  hypervisor.daemonAt({ kind: "socket", fd: SOCKET_FD });
  const sessions = createSessions({ launchers, hypervisor, log: createSilentLogger() });
  const ignore = (): void => undefined;
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

test("a namespace whose descriptor has gone to another is refused", async () => {
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
