// SPDX-License-Identifier: Apache-2.0
// A guest goes to another node and back while it is pinged: the switch hears its MAC in one place at a time, and its NICs are what
// they were. Once there and back, or so often as the environment's MOVES says.
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { eventually, SecondNode, vmManifest } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { guestNics } from "../guest.ts";
import {
  addInterface,
  CHANGE_MS,
  expectGone,
  expectReady,
  ifaceStatus,
  machine,
  removeInterface,
  setAddress,
} from "../machine.ts";
import { ROOT } from "../standalone.ts";
import { Frames } from "./frames.ts";

const NAME = "node-2";
const VM = "delta";
const PEER = "alpha";
/** An even number: it ends where it began. */
const MOVES = Number(process.env["MOVES"] ?? "2");
const MOVE_MS = 180_000;
/** The host's bridge of the network `red`: both nodes are on it. */
const BRIDGE = "pbt-red";
const [HERE, THERE] = ["10.9.8.1", "10.9.8.2"] as const;

const NICS = [
  { name: "default", binding: "masquerade" },
  { name: "served", network: "served" },
] as const;
const LATE = { name: "late", network: "red" };

function definition(name: string, config: object): object {
  return {
    apiVersion: "k8s.cni.cncf.io/v1",
    kind: "NetworkAttachmentDefinition",
    metadata: { name, namespace: "default" },
    spec: { config: JSON.stringify({ cniVersion: "0.4.0", name, ...config }) },
  };
}

let node: SecondNode | undefined;

beforeAll(async () => {
  machine.apply(
    definition("served", {
      ...{ type: "bridge", bridge: "pbt-served" },
      // The same on each node, as an IPAM of the cluster gives it.
      ipam: { type: "static", addresses: [{ address: "10.77.9.5/24" }] },
    }),
    vmManifest({ name: VM, nics: NICS }),
  );
  node = await SecondNode.start(machine, { name: NAME, guestImage: join(ROOT, ".cache/guest") });
  addInterface(PEER, { name: "beside", network: "red" });
  await machine.booted(VM);
  addInterface(VM, LATE);
  for (const { name } of [...NICS, LATE]) await expectReady(VM, name);
  await setAddress(VM, LATE.name, `${HERE}/24`);
  await setAddress(PEER, "beside", `${THERE}/24`);
});

afterAll(async () => {
  machine.kubectl("delete", "vm", VM, "--ignore-not-found");
  await node?.end();
  removeInterface(PEER, "beside");
  await expectGone(PEER, "beside");
  machine.kubectl("delete", "net-attach-def", "served");
  execFileSync("ip", ["link", "del", "pbt-served"]);
});

/** What must be the same wherever it runs. */
async function guestAsItIs(): Promise<unknown> {
  const statuses = [...NICS, LATE].map(({ name }) => {
    const { mac, linkState, interfaceName, podInterfaceName } = ifaceStatus(VM, name) ?? {};
    return { name, mac, linkState, interfaceName, podInterfaceName };
  });
  return { nics: await guestNics(VM), statuses };
}

test(
  "it moves while it is pinged, and is what it was",
  async () => {
    const before = {
      guest: await guestAsItIs(),
      node: machine.findVmi(VM)?.status,
    };
    const mac = ifaceStatus(VM, LATE.name)?.mac ?? "";
    const frames = new Frames(BRIDGE, HERE);
    const pinging = machine.console(PEER).run(`ping ${HERE} ${String(MOVES * 1000)} 10`, {
      timeoutMs: MOVES * MOVE_MS,
    });
    await eventually(() => frames.count > 20, { withinMs: CHANGE_MS });
    let from = before.node?.nodeName;
    for (let move = 0; move < MOVES; move += 1) {
      const since = frames.count;
      const said = machine.patchbay("migrate", VM, "--wait", "--timeout", "170s");
      const to = machine.findVmi(VM)?.status?.nodeName;
      expect(to).not.toBe(from);
      from = to;
      expect(await guestAsItIs()).toEqual(before.guest);
      expect(machine.findVmi(VM)?.status?.migrationState).toMatchObject({ completed: true });
      const outage = frames.longestGapMs(since);
      process.stdout.write(`move ${String(move + 1)}: silent for ${outage.toFixed(0)} ms\n${said}`);
      // The switch hears it in one place more with each move.
      expect(frames.portsOf(mac)).toHaveLength(move + 2);
    }
    process.stdout.write(`${(await pinging).lines.join("\n")}\n`);
    frames.close();
  },
  MOVES * MOVE_MS,
);
