// SPDX-License-Identifier: Apache-2.0
// A guest migrates to another node and back: it stays the same guest with its NICs, and nothing is left behind.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { isEqual } from "@patchbay/base";
import {
  diskVmManifest,
  eventually,
  FEW_PORTS,
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
  ifaceStatus,
  machine,
  ping,
  removeInterface,
  setAddress,
} from "../machine.ts";
import { guestNics, type GuestNic } from "../guest.ts";
import { countsAtRest, countsOf } from "../inventory.ts";
import { ROOT } from "../standalone.ts";
import { Frames } from "./frames.ts";
import { applySharedClaim, claimDevicesOf, deleteSharedClaim } from "./shared-claim.ts";
import {
  requestMigration,
  cancelAsVirtctl,
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
const CLAIM = "chest-shared";
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
  machine.apply(vmiManifest({ name: GUEST, nics: NICS, pcieRootPorts: FEW_PORTS }));
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
  machine.deleteIfPresent("migrationpolicy", POLICY);
  machine.deleteIfPresent("vm", DISKS);
  deleteSharedClaim(machine, CLAIM);
  machine.deleteIfPresent("vmi", GUEST);
  await node?.end();
  removeInterface("alpha", "beside");
  await expectGone("alpha", "beside");
});

/** Expectations of a guest that stayed. */
async function expectStayed(source: string): Promise<void> {
  const { status } = machine.findVmi(GUEST) ?? {};
  expect(status).toMatchObject({ nodeName: source, phase: "Running" });
  expect(status?.migrationState).toMatchObject({ completed: true, failed: true });
  await eventually(() => launchersOf(GUEST).length === 1, { withinMs: CHANGE_MS });
  expect(await guestNics(GUEST)).toEqual(nics);
  expect(await ping(GUEST, "10.9.8.2")).toEqual({ sent: 3, received: 3 });
}

/** The guest's node. */
function nodeOf(vmi: string): string {
  return machine.findVmi(vmi)?.status?.nodeName ?? "";
}

/** Expected result of a migration. */
async function expectMoved(name: string): Promise<void> {
  const phase = await moveEnded(name);
  const why = findMigration(name)?.status?.migrationState?.failureReason;
  expect({ [name]: phase, why }).toEqual({ [name]: "Succeeded", why: undefined });
}

/** Expectations of a guest on that node. */
async function expectThere(target: string): Promise<void> {
  const { status } = machine.findVmi(GUEST) ?? {};
  expect(status).toMatchObject({ nodeName: target, phase: "Running" });
  expect(Object.values(status?.activePods ?? {})).toEqual([target]);
  expect(status?.migrationState).toMatchObject({ completed: true, targetNode: target });
  await eventually(() => launchersOf(GUEST).length === 1, { withinMs: CHANGE_MS });
  for (const { name } of NICS) await expectReady(GUEST, name);
  expect(await guestNics(GUEST)).toEqual(nics);
  expect(await ping(GUEST, "10.9.8.2")).toEqual({ sent: 3, received: 3 });
}

test.each(["there", "back"])("a guest migrates to the other node: %s", async (name) => {
  const target = otherNode(GUEST, nodes);
  requestMigration(GUEST, name);
  await expectMoved(name);
  await expectThere(target);
});

/** Data directories of both nodes. */
function dataDirs(): readonly string[] {
  return [machine.dataDir, node?.dataDir ?? ""];
}

test("a migration canceled by virtctl leaves the guest reachable at its source and nothing elsewhere", async () => {
  const source = nodeOf(GUEST);
  const before = await Promise.all(dataDirs().map(countsAtRest));
  machine.apply(slowPolicy(POLICY));
  machine.kubectl("label", "vmi", GUEST, `pace=${POLICY}`);
  const frames = new Frames("pbt-red", "10.9.8.1");
  try {
    requestMigration(GUEST, "cancelled");
    await moveGoesOn(GUEST, "cancelled");
    expect(launchersOf(GUEST)).toHaveLength(2);
    cancelAsVirtctl(GUEST);
    await eventually(() => findMigration("cancelled") === undefined, { withinMs: CHANGE_MS });
    await expectStayed(source);
    expect(frames.portsOf(ifaceStatus(GUEST, "both")?.mac ?? "")).toHaveLength(1);
  } finally {
    frames.close();
  }
  expect(machine.findVmi(GUEST)?.status?.migrationState).toMatchObject({
    abortRequested: true,
    abortStatus: "Succeeded",
  });
  await eventually(() => isEqual(dataDirs().map(countsOf), before), { withinMs: CHANGE_MS });
});

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
])("a guest stays when $name dies during its migration", async ({ name, strike }) => {
  const source = nodeOf(GUEST);
  const move = name.replaceAll(/[^a-z]/gi, "-").toLowerCase();
  requestMigration(GUEST, move);
  await moveGoesOn(GUEST, move);
  strike(source);
  expect(await moveEnded(move)).toBe("Failed");
  await expectStayed(source);
});

test("the next migration succeeds", async () => {
  const source = nodeOf(GUEST);
  machine.kubectl("label", "vmi", GUEST, "pace-");
  requestMigration(GUEST, "again");
  expect(await moveEnded("again")).toBe("Succeeded");
  expect(nodeOf(GUEST)).not.toBe(source);
});

test("a guest resumes at its target when virt-handler dies there before the resume", async () => {
  const target = otherNode(GUEST, nodes);
  const remaining = newestQemu(GUEST);
  requestMigration(GUEST, "handover");
  await targetListens(GUEST, "handover");
  const handler = handlerOf(directoryOf(target));
  // Its relays are separate processes and continue: the guest arrives without an agent.
  process.kill(handler, "SIGSTOP");
  try {
    await eventually(() => !existsSync(`/proc/${String(remaining)}`), { withinMs: CHANGE_MS });
    expect(machine.findVmi(GUEST)?.status?.migrationState).not.toHaveProperty(
      "targetNodeDomainReadyTimestamp",
    );
  } finally {
    process.kill(handler, "SIGKILL");
  }
  expect(await moveEnded("handover")).toBe("Succeeded");
  await expectThere(target);
});

/** The guest's report on its disks. */
async function disksOf(vm: string): Promise<readonly string[]> {
  const { lines } = await machine.console(vm).run("disks");
  return lines.map((line) => line.replace(/^.*?disk /, "").trimEnd());
}

/** The pod's own disks, and a shared claim. */
function chestManifest(): unknown {
  const kernel = { kernelPath: "/vmlinuz-full", initrdPath: "/initrd-full" };
  const firmware = {
    kernelBoot: { kernelArgs: KERNEL_ARGS, container: { image: "guest", ...kernel } },
  };
  const disks = [
    { name: "empty", volume: { emptyDisk: { capacity: "16Mi" } } },
    // Its label shows whether its content migrated.
    { name: "seed", volume: { cloudInitConfigDrive: { userData: "#cloud-config\n{}\n" } } },
    { name: "shared", volume: { persistentVolumeClaim: { claimName: CLAIM } } },
  ];
  const nic = { name: "default", binding: "masquerade" } as const;
  return diskVmManifest({ name: DISKS, nics: [nic], disks, firmware });
}

/** The guest's last write on a disk. */
async function readDisk(disk: string): Promise<string> {
  const { lines } = await machine.console(DISKS).run(`read ${disk}`);
  return lines.map((line) => line.replace(/^.*?read /, "").trimEnd()).join("\n");
}

async function writeDisks(text: string): Promise<void> {
  for (const disk of ["vda", "vdc"]) {
    expect((await machine.console(DISKS).run(`write ${disk} ${text}`)).code).toBe(0);
  }
}

test("migrates the disks of a guest's pod, and a shared claim is the same device there and back", async () => {
  applySharedClaim(machine, CLAIM);
  machine.apply(chestManifest());
  await machine.booted(DISKS);
  const [before, device] = [await disksOf(DISKS), claimDevicesOf(DISKS)];
  expect(before.join("\n")).toContain("name config-2");
  expect(device).toHaveLength(1);
  for (const name of ["chest-there", "chest-back"]) {
    const [target, remaining] = [otherNode(DISKS, nodes), newestQemu(DISKS)];
    await writeDisks(`before-${name}`);
    requestMigration(DISKS, name);
    await expectMoved(name);
    expect(nodeOf(DISKS)).toBe(target);
    expect(newestQemu(DISKS)).not.toBe(remaining);
    expect(await disksOf(DISKS)).toEqual(before);
    expect(claimDevicesOf(DISKS)).toEqual(device);
    expect([await readDisk("vda"), await readDisk("vdc")]).toEqual([
      `before-${name}`,
      `before-${name}`,
    ]);
  }
  await writeDisks("afterwards");
  expect(await readDisk("vdc")).toBe("afterwards");
});
