// SPDX-License-Identifier: Apache-2.0
// Several NICs in one VM: on the same network, at once, and beside the pod network, which stays.
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  addInterface,
  appendOperations,
  expectGone,
  expectReady,
  machine,
  ping,
  removeInterface,
  setAddress,
  SUBRESOURCES,
} from "../machine.ts";

const NAMES = ["blue2", "red1", "red2"] as const;

describe("several NICs", () => {
  beforeAll(() => {
    addInterface("beta", { name: "base", network: "blue" });
  });

  afterAll(async () => {
    for (const name of NAMES) removeInterface("alpha", name);
    for (const name of NAMES) await expectGone("alpha", name);
  });

  test("a third NIC on a network that the VM is on already", async () => {
    addInterface("alpha", { name: "blue2", network: "blue" });
    await setAddress("alpha", "blue2", "10.9.1.1/24");
    await setAddress("beta", "base", "10.9.1.2/24");
    expect(await ping("beta", "10.9.1.1")).toEqual({ sent: 3, received: 3 });
  });

  test("several at once, each at an address of its own", async () => {
    const nics = [
      { name: "red1", network: "red" },
      { name: "red2", network: "red" },
    ];
    const operations = nics.flatMap((nic) => appendOperations("/spec/template/spec", nic));
    machine.kubectl("patch", "vm", "alpha", "--type=json", "-p", JSON.stringify(operations));
    const statuses = [];
    for (const { name } of nics) statuses.push(await expectReady("alpha", name));
    const all = machine.findVmi("alpha")?.status?.interfaces ?? [];
    expect(new Set(all.map(({ pciAddress }) => pciAddress)).size).toBe(all.length);
    expect(new Set(all.map(({ mac }) => mac)).size).toBe(all.length);
    expect(statuses).toHaveLength(2);
  });

  test("the NIC on the default pod network cannot be removed, and the refusal says so", () => {
    const before = machine.findVm("alpha")?.metadata.generation;
    const path = `${SUBRESOURCES}/virtualmachines/alpha/removeinterface`;
    const { code, stderr } = machine.put(path, { name: "default" });
    expect(code).not.toBe(0);
    expect(stderr).toMatch(/default/);
    expect(stderr).toMatch(/pod network|default network/);
    expect(machine.findVm("alpha")?.metadata.generation).toBe(before);
  });
});
