// SPDX-License-Identifier: Apache-2.0
// The bench of two-node tests: a second node joins the machine's own, a VM that selects it runs there with its NICs,
// and it is removed without leftovers.
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { KubeNode } from "@patchbay/api/kubernetes";
import { FEW_PORTS, SecondNode, vmiManifest } from "@patchbay/support";
import { afterAll, beforeAll, expect, test } from "vitest";
import { tracesOf } from "../inventory.ts";
import {
  addInterface,
  expectGone,
  expectReady,
  machine,
  ping,
  removeInterface,
  setAddress,
} from "../machine.ts";
import { ROOT } from "../standalone.ts";

const NAME = "node-2";
const GUEST = "delta";

let node: SecondNode | undefined;

beforeAll(async () => {
  node = await SecondNode.start(machine, { name: NAME, guestImage: join(ROOT, ".cache/guest") });
});

afterAll(async () => {
  machine.deleteIfPresent("vmi", GUEST);
  await node?.end();
  removeInterface("alpha", "beside");
  await expectGone("alpha", "beside");
});

function readyNodes(): readonly string[] {
  const list = JSON.parse(machine.kubectl("get", "nodes", "-o", "json")) as {
    readonly items: readonly KubeNode[];
  };
  const isReady = ({ status }: KubeNode): boolean =>
    status?.conditions?.some(({ type, status: is }) => type === "Ready" && is === "True") ?? false;
  return list.items.filter(isReady).map(({ metadata }) => metadata.name);
}

test("a VM that selects the second node runs there and reaches the first over a shared network", async () => {
  expect(readyNodes()).toHaveLength(2);
  const nics = [{ name: "default" }, { name: "both", network: "red" }];
  const nodeSelector = { "kubernetes.io/hostname": NAME };
  machine.apply(vmiManifest({ name: GUEST, nics, nodeSelector, pcieRootPorts: FEW_PORTS }));
  addInterface("alpha", { name: "beside", network: "red" });
  await machine.booted(GUEST);
  expect(machine.findPod(GUEST)?.spec.nodeName).toBe(NAME);
  expect(machine.findVmi(GUEST)?.status).toMatchObject({ nodeName: NAME, phase: "Running" });
  expect(existsSync(join(node?.dataDir ?? "", "pods"))).toBe(true);
  for (const { name } of nics) await expectReady(GUEST, name);
  await setAddress(GUEST, "both", "10.9.7.1/24");
  await setAddress("alpha", "beside", "10.9.7.2/24");
  expect(await ping(GUEST, "10.9.7.2")).toEqual({ sent: 3, received: 3 });
});

test("the second node is removed without leftovers, and the machine's own node stays", async () => {
  const { dataDir = "" } = node ?? {};
  machine.delete("vmi", GUEST);
  await node?.end();
  node = undefined;
  expect(tracesOf(dataDir)).toEqual([]);
  expect(existsSync(dataDir)).toBe(false);
  expect(readyNodes()).toHaveLength(1);
});
