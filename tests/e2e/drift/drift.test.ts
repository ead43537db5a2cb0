// SPDX-License-Identifier: Apache-2.0
// Repairs of a running guest's NIC links, triggered by events and reported. No timers are involved.
import { eventually } from "@patchbay/support";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ipIn, linksOf } from "../inventory.ts";
import {
  addInterface,
  CHANGE_MS,
  expectGone,
  expectReady,
  ifaceStatus,
  machine,
  ping,
  removeInterface,
  setAddress,
} from "../machine.ts";
import { hasDevice, virsh } from "../virsh.ts";

const VM = "alpha";
const PEER = "beta";
const NIC = "drifter";
const ADDRESS = "10.9.7.1";
const PEER_ADDRESS = "10.9.7.2";
/** Under a second on an idle machine; on a busy one a single observation may take seconds. The times are printed. */
const SOON_MS = 15_000;
/** The MAC of an unconfigured bridge. */
const ORPHAN = "k6t-0123456789a";

let podUid = "";
let podNic = "";
let bridge = "";
let tap = "";

interface Link {
  readonly ifindex: number;
  readonly flags: readonly string[];
  readonly master?: string;
  readonly addr_info: readonly { readonly local: string }[];
  readonly linkinfo?: { readonly info_slave_data?: { readonly learning?: boolean } };
}

function findLink(name: string): Link | undefined {
  const links = JSON.parse(ipIn(podUid, "-j", "-d", "addr")) as readonly (Link & {
    readonly ifname: string;
  })[];
  return links.find(({ ifname }) => ifname === name);
}

/** Milliseconds from the damage until everything is restored. */
async function mendedAfter(spoil: () => void, isMended: () => boolean): Promise<number> {
  spoil();
  const startMs = performance.now();
  await eventually(isMended, { withinMs: SOON_MS });
  return Math.round(performance.now() - startMs);
}

function isPort(name: string): boolean {
  return findLink(name)?.master === bridge;
}

/** Whether the guest has the NIC, by its status and by the kernel's user of the tap. */
function isPlugged(): boolean {
  const isOpen = findLink(tap)?.flags.includes("LOWER_UP") === true;
  return (
    isOpen && isPort(tap) && hasDevice(VM, NIC) && ifaceStatus(VM, NIC)?.hotplug?.phase === "Ready"
  );
}

async function expectTraffic(): Promise<void> {
  expect(await ping(PEER, ADDRESS)).toEqual({ sent: 3, received: 3 });
}

function driftsTold(): readonly string[] {
  return machine
    .events()
    .filter(({ reason, message }) => reason === "InterfaceDrifted" && message.includes(NIC))
    .map(({ message }) => message);
}

beforeAll(async () => {
  for (const vm of [VM, PEER]) addInterface(vm, { name: NIC, network: "red" });
  await setAddress(VM, NIC, `${ADDRESS}/24`);
  await setAddress(PEER, NIC, `${PEER_ADDRESS}/24`);
  podUid = machine.findPod(VM)?.metadata.uid ?? "";
  podNic = (await expectReady(VM, NIC)).podInterfaceName ?? "";
  bridge = podNic.replace(/^pod/, "k6t-");
  tap = podNic.replace(/^pod/, "tap");
});

afterAll(async () => {
  for (const vm of [VM, PEER]) removeInterface(vm, NIC);
  for (const vm of [VM, PEER]) await expectGone(vm, NIC);
});

describe("under a running guest", () => {
  test.each<{ name: string; spoil: () => void; isMended: () => boolean }>([
    {
      name: "the tap is moved to another bridge",
      spoil: () => {
        ipIn(podUid, "link", "add", "br9", "type", "bridge");
        ipIn(podUid, "link", "set", tap, "master", "br9");
      },
      isMended: () => isPort(tap),
    },
    {
      name: "the pod's NIC is taken out of the bridge",
      spoil: () => ipIn(podUid, "link", "set", podNic, "nomaster"),
      isMended: () => isPort(podNic),
    },
    {
      name: "the bridge is deleted",
      spoil: () => ipIn(podUid, "link", "del", bridge),
      isMended: () => isPort(tap) && isPort(podNic),
    },
    {
      name: "learning is switched on",
      spoil: () => ipIn(podUid, "link", "set", tap, "type", "bridge_slave", "learning", "on"),
      isMended: () => findLink(tap)?.linkinfo?.info_slave_data?.learning === false,
    },
    {
      name: "an address is added to the pod's NIC again",
      spoil: () => ipIn(podUid, "addr", "add", `${PEER_ADDRESS}/24`, "dev", podNic),
      isMended: () => findLink(podNic)?.addr_info.length === 0,
    },
  ])("repairs it when $name", async ({ name, spoil, isMended }) => {
    expect(isPlugged()).toBe(true);
    const { ifindex } = findLink(tap) ?? {};
    const ms = await mendedAfter(spoil, isMended);
    console.info(`mended after ${String(ms)} ms: ${name}`);
    await expectTraffic();
    expect(findLink(tap)?.ifindex).toBe(ifindex);
    expect(isPlugged()).toBe(true);
  });

  test("removes orphaned links of ours", async () => {
    const isGone = (): boolean => !linksOf(podUid).includes(ORPHAN);
    const ms = await mendedAfter(
      () => ipIn(podUid, "link", "add", ORPHAN, "type", "bridge"),
      isGone,
    );
    expect(isPlugged()).toBe(true);
    console.info(`mended after ${String(ms)} ms: links of nobody`);
  });

  afterAll(() => {
    ipIn(podUid, "link", "del", "br9");
  });
});

describe("the guest gets its NIC again at the same PCI address when", () => {
  test.each<{ name: string; spoil: () => void }>([
    { name: "its tap is deleted", spoil: () => ipIn(podUid, "link", "del", tap) },
    {
      name: "its device is detached by hand",
      spoil: () => virsh(VM, "detach-device-alias", `ua-${NIC}`, "--live"),
    },
  ])("$name", async ({ name, spoil }) => {
    const { mac, pciAddress } = await expectReady(VM, NIC);
    const console_ = machine.console(VM);
    const since = console_.position();
    // The guest reports the removal; the NIC may be back before the next observation.
    spoil();
    const startMs = performance.now();
    await console_.waitForLine(/nic removed/, { timeoutMs: SOON_MS, since });
    await console_.waitForLine(/nic added/, { timeoutMs: SOON_MS, since });
    await eventually(isPlugged, { withinMs: SOON_MS });
    const ms = Math.round(performance.now() - startMs);
    console.info(`mended after ${String(ms)} ms: ${name}`);
    expect(await expectReady(VM, NIC)).toMatchObject({ mac, pciAddress });
    await setAddress(VM, NIC, `${ADDRESS}/24`);
    await expectTraffic();
  });
});

test.each([
  "its tap did not exist",
  "its bridge did not exist",
  "were changed by something else",
  "its device was missing",
])("reported that %s", async (text) => {
  const reported = await eventually(() => driftsTold().find((message) => message.includes(text)), {
    withinMs: CHANGE_MS,
  });
  expect(reported).toMatch(new RegExp(`^interface ${NIC}: `));
});
