// SPDX-License-Identifier: Apache-2.0
import type { Command } from "@patchbay/core/interfaces";
import { createFakeClock, createFakeProcessRunner } from "@patchbay/os/testing";
import { expect, test } from "vitest";
import {
  parseRuleset,
  printTable,
  removeTable,
  replaceTable,
  type Table,
  type TableChange,
} from "../nft/table.ts";
import { createKernel } from "../testing/fake-kernel.ts";
import { createNetnsStates } from "./netns-state.ts";

const NETNS = { fd: 8, inode: "42" };
const chains = [{ name: "to-limiter", rules: ["accept"] }];
const FIRST: Table = { family: "netdev", name: "patchbay-tap1", chains };
const SECOND: Table = { ...FIRST, name: "patchbay-tap2" };

/** A namespace whose rules have a generation. Each change of rules increases the generation by `step`. */
function openRules({ listed, step = 1 }: { readonly listed: readonly Table[]; step?: number }) {
  let generation = 7;
  const list = listed.map((table) => `${printTable(table)}\n`).join("");
  const lists: string[] = [];
  const nsenter = ({ argv }: Command) => {
    if (argv.includes("list")) lists.push(argv.join(" "));
    else generation += step;
    return { stdout: argv.includes("list") ? list : "" };
  };
  const runner = createFakeProcessRunner({ nsenter }, createFakeClock());
  const states = createNetnsStates({
    runner,
    netlink: createKernel(() => ({ rules: generation })),
  });
  return { states, lists };
}

test.each<{ name: string; changes: readonly TableChange[]; want: readonly Table[] }>([
  { name: "a new table", changes: [replaceTable(SECOND)], want: [FIRST, SECOND] },
  {
    name: "a changed table",
    changes: [replaceTable({ ...FIRST, chains: [] })],
    want: [{ ...FIRST, chains: [] }],
  },
  { name: "a removed table", changes: [removeTable(FIRST)], want: [] },
])("the rules are known after $name, without listing them again", async ({ changes, want }) => {
  const { states, lists } = openRules({ listed: [FIRST] });
  await states.read(NETNS);
  await states.applyRules(NETNS, changes);
  const { tables } = await states.read(NETNS);
  expect(tables).toEqual(parseRuleset(want.map((table) => `${printTable(table)}\n`).join("")));
  expect(lists).toHaveLength(1);
});

test.each<{ name: string; step?: number; changes: readonly TableChange[] }>([
  { name: "another program changed them too", step: 2, changes: [removeTable(SECOND)] },
  {
    name: "the change retains elements",
    changes: [{ ...removeTable(FIRST), result: "unknown" }],
  },
])("the rules are listed again if $name", async ({ step = 1, changes }) => {
  const { states, lists } = openRules({ listed: [FIRST], step });
  await states.read(NETNS);
  await states.applyRules(NETNS, changes);
  expect((await states.read(NETNS)).tables).toEqual(parseRuleset(`${printTable(FIRST)}\n`));
  expect(lists).toHaveLength(2);
});
