// SPDX-License-Identifier: Apache-2.0
// A guest moves to another node while it runs, and back: it stays the same guest, with its NICs, and nothing is left behind.
import { join } from "node:path";
import { eventually, SecondNode, vmiManifest } from "@patchbay/support";
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
import { askForMove, findMigration, launchersOf, moveEnded, otherNode } from "./two-nodes.ts";

const NODE = "node-2";
const GUEST = "nomad";
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
  machine.kubectl("delete", "vmi", GUEST, "--ignore-not-found");
  await node?.end();
  removeInterface("alpha", "beside");
  await expectGone("alpha", "beside");
});

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
