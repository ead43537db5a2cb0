// SPDX-License-Identifier: Apache-2.0
// A guest that never releases a NIC, and one whose agent floods events: virt-handler's loop stays idle.
import type { VirtualMachineInstance } from "@patchbay/api";
import { aVmi, eventually } from "@patchbay/support";
import { afterEach, expect, test } from "vitest";
import { AttackedLoop, launchersAt, POD_UID } from "../false-libvirt/attacked-loop.ts";
import { AttackedNode } from "../false-libvirt/false-libvirt.ts";

/** Number of agent events before the test checks the loop's reaction. */
const ALARMS = 40;
/** Shortest pause between two checks of an unplug that the guest does not complete, milliseconds. */
const UNPLUG_PAUSE_MS = 2000;
const MAC = "02:00:00:00:00:01";

let node: AttackedNode;
let loop: AttackedLoop;

afterEach(async () => {
  await loop.close();
  await node.close();
});

/** A running VM with a NIC in the guest. */
function runningVmi(state: "absent" | undefined): VirtualMachineInstance {
  const vmi = aVmi({
    nics: [{ name: "one", mac: MAC }],
    status: {
      phase: "Running",
      activePods: { [POD_UID]: "node1" },
      attachments: [
        {
          name: "one",
          networkName: "default/blue",
          podInterfaceName: "pod1",
          state: "Attached",
          mac: MAC,
        },
      ],
    },
  });
  for (const iface of vmi.spec.domain.devices?.interfaces ?? []) {
    if (state !== undefined) Object.assign(iface, { state });
  }
  return vmi;
}

async function attack(behavior: string, vmi: VirtualMachineInstance): Promise<void> {
  node = new AttackedNode();
  loop = new AttackedLoop(node, launchersAt(await node.daemons.start(behavior)), vmi);
  await eventually(() => loop.vmi?.status?.interfaces !== undefined, { withinMs: 20_000 });
}

test("attack 39: retries an unplug that the guest refuses after 10 s at the earliest, and reports it", async () => {
  await attack("refuses every unplug", runningVmi("absent"));
  await eventually(() => loop.longestPauseMs >= UNPLUG_PAUSE_MS, { withinMs: 20_000 });
  expect(loop.vmi?.status?.interfaces?.[0]?.hotplug).toMatchObject({
    type: "Unplug",
    phase: "Detaching",
    attempts: 1,
  });
  expect(loop.writes).toBeLessThan(5);
});

test("attack 40: processes a flooding agent's reports only a few times and reports only valid names", async () => {
  await attack("an agent that rages", runningVmi(undefined));
  await eventually(() => loop.passes >= ALARMS, { withinMs: 20_000 });
  expect(loop.writes).toBeLessThan(5);
  expect(loop.log).toHaveLength(1);
  const [iface] = loop.vmi?.status?.interfaces ?? [];
  expect(iface).toMatchObject({ name: "one", mac: MAC });
  expect(iface).not.toHaveProperty("interfaceName");
});
