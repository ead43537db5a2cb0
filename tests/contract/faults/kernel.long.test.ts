// SPDX-License-Identifier: Apache-2.0
// Deaths on real namespaces, links, CNI plugins, leases and files, without a guest: after each program that an agent
// runs, each file that it writes, each libvirt call and each API write.
import { afterAll, expect, test } from "vitest";
import { expectSameEnd } from "../../faults/every-point.ts";
import { NodeOnKernel } from "../../faults/kernel/node-on-kernel.ts";
import { STORIES } from "../../faults/stories.ts";

const ALL_POINTS_MS = 300_000;
const ON_KERNEL = ["a plug", "an unplug"];
let sum = 0;

afterAll(() => {
  process.stdout.write(`deaths on the kernel: ${String(sum)} points\n`);
});

test.each(STORIES.filter(({ name }) => ON_KERNEL.includes(name)))(
  "$name has the same result after a crash at any of its actions",
  { timeout: ALL_POINTS_MS },
  async (scenario) => {
    const { length: points } = await expectSameEnd(scenario, () => ({
      nodes: [new NodeOnKernel(`pbf${String(process.pid)}`)],
    }));
    sum += points;
    expect(points).toBeGreaterThan(3);
  },
);
