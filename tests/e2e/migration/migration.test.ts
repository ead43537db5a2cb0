// SPDX-License-Identifier: Apache-2.0
// A guest moves to another node while it runs, and back: it stays the same guest, with its NICs, and nothing is left behind.
import { existsSync } from "node:fs";
import { join } from "node:path";
import {
  diskVmManifest,
  eventually,
  KERNEL_ARGS,
  SecondNode,
  vmiManifest,
} from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  addInterface,
  CHANGE_MS,
  expectGone,
  expectReady,
  machine,
  ping,
  removeInterface,
  setAddress,
} from "../machine.ts";
import { guestNics, type GuestNic } from "../guest.ts";
import { ROOT } from "../standalone.ts";
import {
  askForMove,
  findMigration,
  handlerOf,
  launchersOf,
  moveEnded,
  moveGoesOn,
  newestQemu,
  otherNode,
  slowPolicy,
  targetListens,
} from "./two-nodes.ts";

const NODE = "node-2";
const GUEST = "nomad";
const DISKS = "chest";
const POLICY = "slow";
const NICS = [
  { name: "default", binding: "masquerade" },
  { name: "both", network: "red" },
] as const;

let node: SecondNode | undefined;
let nodes: readonly string[] = [];
let nics: readonly GuestNic[] = [];

beforeAll(async () => {
  node = await SecondNode.start(machine, { name: NODE, guestImage: join(ROOT, ".cache/guest") });
  machine.apply(vmiManifest({ name: GUEST, nics: NICS }));
  addInterface("alpha", { name: "beside", network: "red" });
  await machine.booted(GUEST);
  for (const { name } of NICS) await expectReady(GUEST, name);
  await setAddress(GUEST, "both", "10.9.8.1/24");
  await setAddress("alpha", "beside", "10.9.8.2/24");
  nodes = [NODE, machine.kubectl("get", "nodes", "-o", "name").split(/\s+/)]
    .flat()
    .map((name) => name.replace("node/", ""))
    .filter((name, index, all) => name !== "" && all.indexOf(name) === index);
  nics = await guestNics(GUEST);
});

afterAll(async () => {
  machine.kubectl("delete", "migrationpolicy", POLICY, "--ignore-not-found");
  machine.kubectl("delete", "vm", DISKS, "--ignore-not-found");
  machine.kubectl("delete", "vmi", GUEST, "--ignore-not-found");
  await node?.end();
  removeInterface("alpha", "beside");
  await expectGone("alpha", "beside");
});

/** What must be so of a guest that stayed where it was. */
async function expectStayed(source: string): Promise<void> {
  const { status } = machine.findVmi(GUEST) ?? {};
  expect(status).toMatchObject({ nodeName: source, phase: "Running" });
  expect(status?.migrationState).toMatchObject({ completed: true, failed: true });
  await eventually(() => launchersOf(machine, GUEST).length === 1, { withinMs: CHANGE_MS });
  expect(await guestNics(GUEST)).toEqual(nics);
  expect(await ping(GUEST, "10.9.8.2")).toEqual({ sent: 3, received: 3 });
}

/** Where the guest is. */
function nodeOf(vmi: string): string {
  return machine.findVmi(vmi)?.status?.nodeName ?? "";
}

/** What must be so of a guest that is on that node. */
async function expectThere(target: string): Promise<void> {
  const { status } = machine.findVmi(GUEST) ?? {};
  expect(status).toMatchObject({ nodeName: target, phase: "Running" });
  expect(Object.values(status?.activePods ?? {})).toEqual([target]);
  expect(status?.migrationState).toMatchObject({ completed: true, targetNode: target });
  await eventually(() => launchersOf(machine, GUEST).length === 1, { withinMs: CHANGE_MS });
  for (const { name } of NICS) await expectReady(GUEST, name);
  expect(await guestNics(GUEST)).toEqual(nics);
  expect(await ping(GUEST, "10.9.8.2")).toEqual({ sent: 3, received: 3 });
}

test.each(["there", "back"])("a guest moves to the other node: %s", async (name) => {
  const target = otherNode(GUEST, nodes);
  askForMove(GUEST, name);
  expect({ [name]: await moveEnded(name), why: findMigration(name)?.status }).toMatchObject({
    [name]: "Succeeded",
  });
  await expectThere(target);
});

test("a guest whose migration is deleted on its way stays", async () => {
  const source = nodeOf(GUEST);
  machine.apply(slowPolicy(POLICY));
  machine.kubectl("label", "vmi", GUEST, `pace=${POLICY}`);
  askForMove(GUEST, "deleted");
  await moveGoesOn(GUEST, "deleted");
  machine.kubectl("delete", "virtualmachineinstancemigration", "deleted");
  await expectStayed(source);
  expect(machine.findVmi(GUEST)?.status?.migrationState).toMatchObject({
    ...{ abortRequested: true, abortStatus: "Succeeded" },
  });
});

/** Data directory of a node. */
function directoryOf(name: string): string {
  return name === NODE ? (node?.dataDir ?? "") : machine.dataDir;
}

test.each([
  {
    name: "its virt-handler",
    strike: (source: string) => {
      process.kill(handlerOf(directoryOf(source)), "SIGKILL");
    },
  },
  {
    name: "the target's virt-handler",
    strike: (source: string) => {
      process.kill(handlerOf(directoryOf(otherNode(GUEST, nodes.toSorted()))), "SIGKILL");
      expect(nodeOf(GUEST)).toBe(source);
    },
  },
  {
    name: "the target's QEMU",
    strike: () => {
      process.kill(newestQemu(GUEST), "SIGKILL");
    },
  },
  {
    name: "the target's pod",
    strike: () => {
      const { targetPod = "" } = machine.findVmi(GUEST)?.status?.migrationState ?? {};
      machine.kubectl("delete", "pod", targetPod, "--wait=false");
    },
  },
])("a guest stays when $name dies on its way", async ({ name, strike }) => {
  const source = nodeOf(GUEST);
  const move = name.replaceAll(/[^a-z]/gi, "-").toLowerCase();
  askForMove(GUEST, move);
  await moveGoesOn(GUEST, move);
  strike(source);
  expect(await moveEnded(move)).toBe("Failed");
  await expectStayed(source);
});

test("it goes the next time", async () => {
  const source = nodeOf(GUEST);
  machine.kubectl("label", "vmi", GUEST, "pace-");
  askForMove(GUEST, "again");
  expect(await moveEnded("again")).toBe("Succeeded");
  expect(nodeOf(GUEST)).not.toBe(source);
});

test("it goes on at its target when virt-handler there dies as it has come, before it has let it go on", async () => {
  const target = otherNode(GUEST, nodes);
  const left = newestQemu(GUEST);
  askForMove(GUEST, "handover");
  await targetListens(GUEST, "handover");
  const handler = handlerOf(directoryOf(target));
  // Its relays, which are others' processes, go on: the guest comes, and nobody looks.
  process.kill(handler, "SIGSTOP");
  try {
    await eventually(() => !existsSync(`/proc/${String(left)}`), { withinMs: CHANGE_MS });
    expect(machine.findVmi(GUEST)?.status?.migrationState).not.toHaveProperty(
      "targetNodeDomainReadyTimestamp",
    );
  } finally {
    process.kill(handler, "SIGKILL");
  }
  expect(await moveEnded("handover")).toBe("Succeeded");
  await expectThere(target);
});

/** What the guest says of its disks. */
async function disksOf(vm: string): Promise<readonly string[]> {
  const { lines } = await machine.console(vm).run("disks");
  return lines.map((line) => line.replace(/^.*?disk /, "").trimEnd());
}

test("disks of a guest's pod go along", async () => {
  const kernel = { kernelPath: "/vmlinuz-full", initrdPath: "/initrd-full" };
  const firmware = {
    kernelBoot: { kernelArgs: KERNEL_ARGS, container: { image: "guest", ...kernel } },
  };
  const disks = [
    { name: "empty", volume: { emptyDisk: { capacity: "16Mi" } } },
    // Its label shows whether what is on it has come along.
    { name: "seed", volume: { cloudInitConfigDrive: { userData: "#cloud-config\n{}\n" } } },
  ];
  const nic = { name: "default", binding: "masquerade" } as const;
  machine.apply(diskVmManifest({ name: DISKS, nics: [nic], disks, firmware }));
  await machine.booted(DISKS);
  const before = await disksOf(DISKS);
  askForMove(DISKS, "chest");
  expect({ phase: await moveEnded("chest"), why: findMigration("chest")?.status }).toMatchObject({
    phase: "Succeeded",
  });
  expect(await disksOf(DISKS)).toEqual(before);
  expect(before.join("\n")).toContain("name config-2");
});
