// SPDX-License-Identifier: Apache-2.0
import { Command } from "commander";
import { expect, test } from "vitest";
import { addPolicyFlags, parsePolicyLists } from "./config.ts";

function parse(...args: readonly string[]) {
  const command = addPolicyFlags(new Command("net-agent"))
    .exitOverride()
    .configureOutput({ writeErr: () => undefined });
  return parsePolicyLists(command.parse(["node", "net-agent", ...args]));
}

test.each([
  { name: "no flag sets no list", args: [], want: {} },
  {
    name: "a flag sets its list",
    args: ["--tenant-masters", "eth1, !eth*,*", "--trusted-namespaces=a"],
    want: { trustedNamespaces: ["a"], masters: ["eth1", "!eth*", "*"] },
  },
  { name: "an empty flag allows nothing", args: ["--tenant-plugins="], want: { plugins: [] } },
])("$name", ({ args, want }) => {
  expect(parse(...args)).toEqual(want);
});

test.each([
  { flag: "--tenant-bridges", text: "br1,b*r", says: '"b*r" must be a name' },
  { flag: "--tenant-paths", text: "/run/../etc", says: '"/run/../etc" must be an absolute path' },
])("rejects $flag $text as wrong usage", ({ flag, text, says }) => {
  expect(() => parse(flag, text)).toThrow(says);
});
