// SPDX-License-Identifier: Apache-2.0
import type { CommandResult } from "@patchbay/core/interfaces";
import { createFakeProcessRunner } from "@patchbay/os/testing";
import { createSilentLogger } from "@patchbay/telemetry";
import { expect, test } from "vitest";
import type { Forward } from "./forwards.ts";
import { ForwardTable } from "./forward-table.ts";
import { printChanges, printTable } from "./ruleset.ts";

const SETTINGS = {
  table: "t",
  serviceNetwork: "10.96.0.0/16",
  dns: "10.96.0.10",
  podNetwork: "10.88.0.0/24",
  bridge: "br0",
};

function aForward(port: number): Forward {
  return {
    name: `blue/web:${String(port)}/tcp`,
    protocol: "tcp",
    address: "10.96.0.5",
    port,
    endpoints: ["10.88.0.5 . 8080"],
    isSticky: false,
  };
}

/** nft gives these answers in turn, then succeeds. */
function keeper(...answers: Partial<CommandResult>[]) {
  const runner = createFakeProcessRunner({ nft: () => answers.shift() ?? {} });
  const counts: string[] = [];
  const made = new ForwardTable({
    runner,
    log: createSilentLogger(),
    settings: SETTINGS,
    countWrite: (what) => {
      counts.push(what);
    },
  });
  return { made, counts, texts: () => runner.commands.map(({ stdin }) => stdin) };
}

const UNSUPPORTED_KINDS = { exitCode: 1, stderr: " no such table\n" };
const ONE = [aForward(80)];
const TWO = [aForward(80), aForward(81)];
const CHANGE = printChanges(SETTINGS, ONE, TWO);
const WHOLE = printTable(SETTINGS, ONE);
const WHOLE_TWO = printTable(SETTINGS, TWO);

test.each([
  { name: "the whole table first", given: [ONE], texts: [WHOLE], counts: ["whole"] },
  { name: "nothing for an unchanged table", given: [ONE, ONE], texts: [WHOLE], counts: ["whole"] },
  {
    name: "only the changes after that",
    given: [ONE, TWO],
    texts: [WHOLE, CHANGE],
    counts: ["whole", "changed"],
  },
])("nft receives $name", async ({ given, texts, counts }) => {
  const seen = keeper();
  expect(seen.made.count).toBe(0);
  for (const forwards of given) {
    await seen.made.write(forwards);
    expect(seen.made.count).toBe(forwards.length);
  }
  expect(seen.texts()).toEqual(texts);
  expect(seen.counts).toEqual(counts);
});

test("writes the whole table again if the kernel rejects a change", async () => {
  const seen = keeper({}, UNSUPPORTED_KINDS);
  await seen.made.write(ONE);
  await seen.made.write(TWO);
  expect(seen.texts()).toEqual([WHOLE, CHANGE, WHOLE_TWO]);
  expect(seen.counts).toEqual(["whole", "failed", "whole"]);
});

test("writes the whole table the next time after the kernel rejects it", async () => {
  const seen = keeper({}, UNSUPPORTED_KINDS, UNSUPPORTED_KINDS);
  await seen.made.write(ONE);
  await expect(seen.made.write(TWO)).rejects.toMatchObject({
    code: "SERVICE_RULES_REFUSED",
    details: { reason: "no such table" },
  });
  expect(seen.made.count).toBe(0);
  await seen.made.write(TWO);
  expect(seen.texts()).toEqual([WHOLE, CHANGE, WHOLE_TWO, WHOLE_TWO]);
  expect(seen.counts).toEqual(["whole", "failed", "failed", "whole"]);
});
