// SPDX-License-Identifier: Apache-2.0
// A guest migrates to another node and back while it is pinged, pings, and sends on a connection: the switch learns its
// MAC in one place at a time, no data is lost, it runs in one place, its NICs stay the same, and nothing is left
// behind. Once there and back, or MOVES times.
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { isEqual } from "@patchbay/base";
import { eventually, FEW_PORTS, RunningGuests, SecondNode, vmManifest } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { guestNics } from "../guest.ts";
import { countsAtRest, countsOf, othersHaveLeft, tracesOf } from "../inventory.ts";
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
import { ROOT } from "../standalone.ts";
import { Frames } from "./frames.ts";
import { NumberStream } from "./stream.ts";
import { moveByCommand } from "./two-nodes.ts";

const NAME = "node-2";
const VM = "delta";
const PEER = "alpha";
/** An even number, so that it ends where it began. */
const MOVES = Number(process.env["MOVES"] ?? "2");
const MOVE_MS = 180_000;
/** The host's bridge of the network `red`: both nodes are on it. */
const BRIDGE = "pbt-red";
const [HERE, THERE] = ["10.9.8.1", "10.9.8.2"] as const;

/** Enough pings to outlast the migrations. */
const ENDLESS = "10000000";

const NICS = [
  { name: "default", binding: "masquerade" },
  { name: "served", network: "served" },
  { name: "far", network: "far" },
] as const;
const LATE = { name: "late", network: "red" };
/** A macvlan's parent, whose peer is on the bridge. Both nodes are on one host, so their pods' NICs have one parent. */
const [PARENT, UPLINK] = ["pbmv0", "pbmv1"] as const;
/** The host's addresses on the bridge, and the guest's on the macvlan. */
const HOST = { late: "10.9.8.9", far: "10.9.10.9" };
const FAR = "10.9.10.1";

function ip(...args: readonly string[]): void {
  execFileSync("ip", args);
}

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
  // Creates its network's bridge.
  addInterface(PEER, { name: "beside", network: "red" });
  await expectReady(PEER, "beside");
  // A bridge without a fixed MAC adopts a new port's, while guests would send to the old one.
  const address = readFileSync(`/sys/class/net/${BRIDGE}/address`, "utf8").trim();
  ip("link", "set", BRIDGE, "address", address);
  // A killed run left it.
  if (existsSync(`/sys/class/net/${PARENT}`)) ip("link", "del", PARENT);
  ip("link", "add", PARENT, "type", "veth", "peer", "name", UPLINK);
  ip("link", "set", UPLINK, "master", BRIDGE, "up");
  ip("link", "set", PARENT, "up");
  ip("addr", "replace", `${HOST.far}/24`, "dev", BRIDGE);
  machine.apply(
    definition("far", { type: "macvlan", master: PARENT, mode: "bridge" }),
    definition("served", {
      type: "bridge",
      bridge: "pbt-served",
      // Equal on each node, like a cluster-wide IPAM.
      ipam: { type: "static", addresses: [{ address: "10.77.9.5/24" }] },
    }),
    vmManifest({ name: VM, nics: NICS, pcieRootPorts: FEW_PORTS }),
  );
  node = await SecondNode.start(machine, { name: NAME, guestImage: join(ROOT, ".cache/guest") });
  await machine.booted(VM);
  addInterface(VM, LATE);
  for (const { name } of [...NICS, LATE]) await expectReady(VM, name);
  await setAddress(VM, LATE.name, `${HERE}/24`);
  await setAddress(VM, "far", `${FAR}/24`);
  await setAddress(PEER, "beside", `${THERE}/24`);
});

afterAll(async () => {
  machine.deleteIfPresent("vm", VM);
  await node?.end();
  machine.deleteIfPresent("net-attach-def", "served", "far");
  ip("addr", "del", `${HOST.far}/24`, "dev", BRIDGE);
  for (const link of ["pbt-served", PARENT]) ip("link", "del", link);
  removeInterface(PEER, "beside");
  await expectGone(PEER, "beside");
});

/** Properties that must not change with the node. */
async function guestAsItIs(): Promise<unknown> {
  const statuses = [...NICS, LATE].map(({ name }) => {
    const { mac, linkState, interfaceName, podInterfaceName } = ifaceStatus(VM, name) ?? {};
    return { name, mac, linkState, interfaceName, podInterfaceName };
  });
  return { nics: await guestNics(VM), statuses };
}

/** Data directories of both nodes. */
function dataDirs(): readonly string[] {
  return [machine.dataDir, node?.dataDir ?? ""];
}

function printTraces(): string {
  return JSON.stringify(dataDirs().map(tracesOf), null, 1);
}

/** Number of ping replies that the guest's kernel received. */
async function echoesOf(): Promise<number> {
  const { lines } = await machine.console(VM).run("echoes");
  return Number(/received (\d+)/.exec(lines.join())?.[1]);
}

/** Waits until the assertions hold, and fails with the last of theirs. */
async function until(assertions: () => Promise<void> | void): Promise<void> {
  const hold = async (): Promise<true> => {
    await assertions();
    return true;
  };
  await eventually(hold, { withinMs: CHANGE_MS });
}

/** One migration, after which only the place differs. */
async function expectMove(frames: Frames, stream: NumberStream, guest: unknown): Promise<string> {
  const from = machine.findVmi(VM)?.status?.nodeName;
  const [answered, requested, number] = [frames.answers.count, frames.questions.count, stream.last];
  const output = await moveByCommand(VM);
  expect(machine.findVmi(VM)?.status?.nodeName).not.toBe(from);
  expect(await guestAsItIs()).toEqual(guest);
  expect(machine.findVmi(VM)?.status?.migrationState).toMatchObject({ completed: true });
  await until(async () => {
    expect(await ping(VM, HOST.far)).toMatchObject({ received: 3 });
  });
  await until(() => {
    expect(stream.last).toBeGreaterThan(number);
  });
  const before = await echoesOf();
  await until(async () => {
    expect(await echoesOf()).toBeGreaterThan(before + 20);
  });
  expect(stream.faults).toEqual([]);
  const outage = frames.answers.longestGapMs(answered).toFixed(0);
  const pause = frames.questions.longestGapMs(requested).toFixed(0);
  return `silent for ${outage} ms, asked nothing for ${pause} ms, ${String(stream.last - number)} numbers came\n${output}`;
}

test(
  "migrates under traffic both ways, runs in one place, and stays the same guest",
  async () => {
    // Launchers of earlier tests end shortly after their VMs.
    await othersHaveLeft();
    const counts = await Promise.all(dataDirs().map(countsAtRest));
    const before = { guest: await guestAsItIs(), counts, traces: printTraces() };
    const mac = ifaceStatus(VM, LATE.name)?.mac ?? "";
    const frames = new Frames(BRIDGE, HERE);
    const stream = await NumberStream.listen(BRIDGE, `${HOST.late}/24`);
    const running = new RunningGuests({
      domain: `default_${VM}`,
      nodes: [machine.dataDir, node?.dataDir ?? ""],
      pods: () => Object.keys(machine.findVmi(VM)?.status?.activePods ?? {}),
    });
    const timeoutMs = MOVES * MOVE_MS;
    const busy = [`count ${HOST.late} ${String(stream.port)}`, `ping ${HOST.late} ${ENDLESS} 10`];
    const output = busy.map((command) => {
      // Each node has its own console.
      return machine
        .console(VM)
        .run(command, { timeoutMs })
        .catch(() => undefined);
    });
    const pinging = machine
      .console(PEER)
      .run(`ping ${HERE} ${String(MOVES * 1000)} 10`, { timeoutMs });
    try {
      await until(() => {
        expect(Math.min(frames.answers.count, frames.questions.count)).toBeGreaterThan(20);
        expect(stream.last).toBeGreaterThan(0);
      });
      for (let move = 0; move < MOVES; move += 1) {
        const output = await expectMove(frames, stream, before.guest);
        const off = running.takeLongestOff().toFixed(0);
        process.stdout.write(`move ${String(move + 1)}: off for ${off} ms, ${output}`);
        // The switch learns one more place per migration.
        expect(frames.portsOf(mac)).toHaveLength(move + 2);
      }
      process.stdout.write(`${(await pinging).lines.join("\n")}\n`);
    } finally {
      frames.close();
      stream.close();
      await running.close();
    }
    void output;
    process.stdout.write(`${JSON.stringify(running.seen)}\n`);
    expect(running.seen.twice).toBe(0);
    await until(() => {
      const counts = dataDirs().map(countsOf);
      if (isEqual(counts, before.counts)) return;
      const message = `counts before: ${JSON.stringify(before.counts)}, now: ${JSON.stringify(counts)}`;
      throw new Error(`${message}\ntraces before: ${before.traces}\nnow: ${printTraces()}`);
    });
  },
  MOVES * MOVE_MS,
);
