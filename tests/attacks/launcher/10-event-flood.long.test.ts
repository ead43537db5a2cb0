// SPDX-License-Identifier: Apache-2.0
// A launcher that floods its client with events, drops connections, or hangs the child.
import { execFileSync } from "node:child_process";
import { isAppError } from "@patchbay/base";
import type { HypervisorAddress, HypervisorConnection } from "@patchbay/core/interfaces";
import { eventually } from "@patchbay/support";
import { afterEach, expect, test } from "vitest";
import { AttackedNode, failureOf, LAUNCHER } from "../false-libvirt/false-libvirt.ts";

/** Limit for a neighbor's event during the attack, milliseconds; without it, it takes 5. */
const EVENT_MS = 2000;

let node: AttackedNode;

afterEach(() => node.close());

/** A connection to a daemon that cuts it off; undefined if that happens before it is open. */
async function openOrCutOff(
  { hypervisor }: AttackedNode,
  address: HypervisorAddress,
): Promise<HypervisorConnection | undefined> {
  try {
    return await hypervisor.open(address);
  } catch (error) {
    if (isAppError(error, "LIBVIRT_UNREACHABLE")) return undefined;
    throw error;
  }
}

// "early": the registration fails while events are delivered, and libvirt releases it twice.
test.each([
  { which: "event floods whose connections end", behaviour: "floods" },
  { which: "floods that start during the event registration", behaviour: "floods early" },
])(
  "attack 10: $which do not affect a neighbor's events or the child",
  async ({ behaviour: behavior }) => {
    node = new AttackedNode();
    const neighbor = await node.neighbour();
    let events = 0;
    neighbor.onEvent(() => {
      events += 1;
    });
    const addresses = await Promise.all([1, 2, 3].map(() => node.daemons.start(behavior)));
    let attacks = 0;
    const attack = async (index: number): Promise<void> => {
      const address = addresses[index];
      if (address === undefined) throw new Error("no such daemon");
      for (let turn = 0; turn < 15; turn += 1) {
        const connection = await openOrCutOff(node, address);
        attacks += 1;
        // The daemon cuts it off, or we close it during the flood.
        if (turn % 2 === 0) await connection?.closed;
        await connection?.close();
      }
    };
    const attacked = Promise.all([0, 1, 2].map(attack));
    for (const change of [
      "destroyDomain",
      "startDomain",
      "destroyDomain",
      "startDomain",
    ] as const) {
      const before = events;
      await neighbor[change]("test");
      await eventually(() => events > before, { withinMs: EVENT_MS });
    }
    await attacked;
    expect(attacks).toBe(45);
    expect(node.pids).toHaveLength(1);
  },
);

test("attack 10: detects and replaces a child that hangs", async () => {
  node = new AttackedNode({ beatMs: 300 });
  const neighbor = await node.neighbour();
  process.kill(node.pids[0] ?? 0, "SIGSTOP");
  expect(await neighbor.closed).toMatchObject({ by: "client" });
  await node.neighbour();
  expect(node.pids).toHaveLength(2);
});

test("attack 10: a child without spare threads refuses a connection and survives", async () => {
  node = new AttackedNode();
  const neighbor = await node.neighbour();
  const { uid, gid } = LAUNCHER;
  const asLauncher = ["--reuid", String(uid), "--regid", String(gid), "--clear-groups"];
  const limit = ["prlimit", "--pid", String(node.pids[0]), "--nproc=1:1"];
  execFileSync("setpriv", [...asLauncher, ...limit]);
  expect(await failureOf(node.neighbour())).toBe("LIBVIRT_UNREACHABLE");
  expect((await neighbor.findDomain("test"))?.state).toBe("running");
  expect(node.pids).toHaveLength(1);
});
