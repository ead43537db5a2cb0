// SPDX-License-Identifier: Apache-2.0
// Hostile guest agent replies from root in a guest.
import { afterAll, beforeAll, expect, test } from "vitest";
import { AttackedNode } from "../false-libvirt/false-libvirt.ts";

let node: AttackedNode;

beforeAll(() => {
  node = new AttackedNode();
});

afterAll(() => node.close());

test("attack 9: truncates 1,024 NICs with 9 kB names when it reads them, and the child survives", async () => {
  const neighbor = await node.neighbour();
  const connection = await node.attack("an agent with long names");
  for (let turn = 0; turn < 3; turn += 1) {
    const nics = await connection.readGuestInterfaces("default_vm1");
    expect(nics).toHaveLength(256);
    expect(nics[0]).toEqual({
      name: "n".repeat(256),
      mac: "02:00:00:00:00:01",
      addresses: [],
    });
  }
  expect((await neighbor.findDomain("test"))?.state).toBe("running");
  expect(node.pids).toHaveLength(1);
});

test("attack 9: truncates 40,000 addresses of 200 bytes in number and length, and the child survives", async () => {
  const neighbor = await node.neighbour();
  const connection = await node.attack("an agent with long addresses");
  for (let turn = 0; turn < 3; turn += 1) {
    const nics = await connection.readGuestInterfaces("default_vm1");
    expect(nics).toHaveLength(200);
    expect(nics[0]?.addresses).toEqual(Array<string>(32).fill(`10.0.0.1${"0".repeat(56)}`));
    expect(nics.flatMap(({ addresses }) => addresses)).toHaveLength(1024);
  }
  expect((await neighbor.findDomain("test"))?.state).toBe("running");
  expect(node.pids).toHaveLength(1);
});
