// SPDX-License-Identifier: Apache-2.0
// Kills each process without plans during a plug and during an unplug: the request completes without duplicates or
// leftovers.
import { eventually } from "@patchbay/support";
import { afterEach, describe, expect, test } from "vitest";
import { guestNics } from "../guest.ts";
import { childrenOf, leaseFiles, linksOf, processesIn } from "../inventory.ts";
import {
  addInterface,
  CHANGE_MS,
  expectGone,
  expectReady,
  guestNic,
  ifaceStatus,
  machine,
  removeInterface,
} from "../machine.ts";

/** Planning processes die after single actions, in faults.test.ts. */
const COMPONENTS = ["apiserver", "virt-api", "node-runtime"];
const NIC = { name: "crash", network: "blue" };

interface Victim {
  readonly name: string;
  /** Kills it and waits for its successor if its pid is known. */
  readonly kill: (podUid: string) => Promise<void> | void;
  /** Prevents actions before the kill that its successor could not know. */
  readonly hold?: (podUid: string) => void;
}

function signal(name: "SIGKILL" | "SIGSTOP", ...pids: readonly number[]): void {
  expect(pids).not.toEqual([]);
  for (const pid of pids) process.kill(pid, name);
}

function kill(...pids: readonly number[]): void {
  signal("SIGKILL", ...pids);
}

const SERVICES = COMPONENTS.map((component): Victim => ({
  name: component,
  kill: async () => {
    const pid = machine.pidOf(component);
    kill(pid);
    await eventually(() => machine.pidOf(component) !== pid, { withinMs: CHANGE_MS });
  },
}));

const OTHERS: readonly Victim[] = [
  {
    name: "the launcher's libvirt",
    kill: (podUid) => {
      kill(...processesIn(podUid, "libvirtd"));
    },
    // libvirt 9.0 does not recover a death between a change of a NIC's backend in QEMU and its record: after a plug the
    // tap stays busy until the VM restarts (TapRefused), after an unplug it ends the guest.
    hold: (podUid) => {
      signal("SIGSTOP", ...processesIn(podUid, "libvirtd"));
    },
  },
  {
    name: "virt-handler's libvirt child",
    kill: () => {
      kill(...childrenOf(machine.pidOf("virt-handler")));
    },
  },
  {
    name: "the supervisor, which the next up replaces",
    kill: () => {
      kill(machine.pidOf("supervisor"));
      machine.patchbay("up");
    },
  },
];

function requestUnplug(): boolean {
  removeInterface("alpha", NIC.name);
  return true;
}

/** Repeats the request, because a killed virt-api may not listen yet. */
async function unplug(): Promise<void> {
  await eventually(requestUnplug, { withinMs: CHANGE_MS });
}

afterEach(async () => {
  if (ifaceStatus("alpha", NIC.name) === undefined) return;
  // A failed row leaves its NIC, and perhaps a stopped libvirt.
  const podUid = machine.findPod("alpha")?.metadata.uid ?? "";
  for (const pid of processesIn(podUid, "libvirtd")) process.kill(pid, "SIGCONT");
  await unplug();
  await expectGone("alpha", NIC.name);
});

describe.each([...SERVICES, ...OTHERS])("killed: $name", (victim) => {
  test("during a plug and an unplug", async () => {
    const { kill: strike, hold } = victim;
    const podUid = machine.findPod("alpha")?.metadata.uid ?? "";
    const before = { links: linksOf(podUid), leases: leaseFiles("pbt-blue") };
    hold?.(podUid);
    addInterface("alpha", NIC);
    await strike(podUid);
    const status = await expectReady("alpha", NIC.name);
    const mac = status.mac ?? "none";
    // The guest detects a NIC some time after libvirt attached it.
    await guestNic("alpha", mac);
    const nics = await guestNics("alpha");
    expect(nics.filter((nic) => nic.mac === mac)).toHaveLength(1);
    expect(linksOf(podUid)).toHaveLength(before.links.length + 3);

    hold?.(podUid);
    await unplug();
    await strike(podUid);
    await expectGone("alpha", NIC.name);
    expect(linksOf(podUid)).toEqual(before.links);
    // Another VM may still be running: only this NIC's leftovers count.
    expect(leaseFiles("pbt-blue").filter((lease) => !before.leases.includes(lease))).toEqual([]);
  });
});
