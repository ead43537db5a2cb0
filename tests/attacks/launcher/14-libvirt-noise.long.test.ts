// SPDX-License-Identifier: Apache-2.0
// A hostile libvirt in a launcher: bytes, documents and errors designed to harm the reader.
import { isAppError } from "@patchbay/base";
import { parseDomain } from "@patchbay/domain/parse";
import { afterAll, beforeAll, expect, test } from "vitest";
import { AttackedNode, failureOf } from "../false-libvirt/false-libvirt.ts";

/** Limit of processor time for one document, milliseconds: hostile documents must not block the loop. */
const PARSE_MS = 5000;

let node: AttackedNode;

beforeAll(() => {
  node = new AttackedNode({ openTimeoutMs: 500 });
});

afterAll(() => node.close());

/** The neighbor and the child are unaffected. */
async function expectUnhurt(): Promise<void> {
  const neighbor = await node.neighbour();
  expect((await neighbor.findDomain("test"))?.state).toBe("running");
  await neighbor.close();
  expect(node.pids).toHaveLength(1);
}

test.each(["garbage", "false lengths", "packets of 1 GB"])("attack 14: %s", async (behavior) => {
  expect(await failureOf(node.attack(behavior))).toMatch(/LIBVIRT_(UNREACHABLE|TIMED_OUT)/);
  await expectUnhurt();
});

async function judge(behavior: string): Promise<string> {
  const connection = await node.attack(behavior);
  try {
    const xml = await connection.readDomainXml("default_vm1", "live");
    const before = process.threadCpuUsage();
    const parsed = parseDomain(xml);
    const { user, system } = process.threadCpuUsage(before);
    expect((user + system) / 1000).toBeLessThan(PARSE_MS);
    return parsed.ok ? "taken" : parsed.reason;
  } catch (error) {
    if (isAppError(error)) return error.code;
    throw error;
  } finally {
    await connection.close();
  }
}

test.each([
  { behaviour: "XML of 1 MiB", judgement: "LIBVIRT_REFUSED" },
  { behaviour: "XML of 5 MB", judgement: "LIBVIRT_REFUSED" },
  { behaviour: "XML of control characters", judgement: "Illegal control character" },
  { behaviour: "XML with entities", judgement: "it has a DOCTYPE" },
  { behaviour: "XML of 30,000 levels", judgement: "nested" },
  { behaviour: "XML with __proto__", judgement: "__proto__" },
])("attack 15: $behaviour", async ({ behaviour: behavior, judgement }) => {
  expect(await judge(behavior)).toContain(judgement);
  await expectUnhurt();
});

test.each([
  { behaviour: "XML with 6,000 NICs", judgement: "more than 256 NICs" },
  { behaviour: "XML with 20,000 attributes", judgement: "taken" },
  { behaviour: "XML with false numbers", judgement: "is not a number" },
])("attack 16: $behaviour", async ({ behaviour: behavior, judgement }) => {
  expect(await judge(behavior)).toContain(judgement);
  await expectUnhurt();
});

test("attack 17: truncates 4 MB errors before they leave the child", async () => {
  const connection = await node.attack("errors of 4 MB");
  await expect(connection.findDomain("default_vm1")).rejects.toMatchObject({
    code: "LIBVIRT_REFUSED",
    details: { message: "\u0001".repeat(1000) },
  });
  await expectUnhurt();
});
