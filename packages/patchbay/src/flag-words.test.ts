// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { COMMANDS } from "./commands/table.ts";
import { joinFlagValues } from "./flag-words.ts";

const OPTION = "-o StrictHostKeyChecking=no";

test.each([
  {
    name: "a short flag of the command",
    args: ["ssh", "-t", OPTION, "-t", "-v", "vm/web"],
    want: ["ssh", `--local-ssh-opts=${OPTION}`, "--local-ssh-opts=-v", "vm/web"],
  },
  {
    name: "a long flag, behind a flag of all commands",
    args: ["-n", "blue", "scp", "--local-ssh-opts", OPTION, "a", "vm/web:b"],
    want: ["-n", "blue", "scp", `--local-ssh-opts=${OPTION}`, "a", "vm/web:b"],
  },
  {
    name: "a flag of a command of two words",
    args: ["set", "interface", "web", "--network", "-x"],
    want: ["set", "interface", "web", "--network=-x"],
  },
  {
    name: "no value without a dash",
    args: ["ssh", "-l", "root", "-c", "ls", "vm/web"],
    want: ["ssh", "-l", "root", "-c", "ls", "vm/web"],
  },
  {
    name: "no flag without a value",
    args: ["addinterface", "web", "--check", "--keep"],
    want: ["addinterface", "web", "--check", "--keep"],
  },
  {
    name: "nothing behind --",
    args: ["ssh", "--", "-t", "-v"],
    want: ["ssh", "--", "-t", "-v"],
  },
  { name: "nothing of an unknown command", args: ["fly", "-t", "-v"], want: ["fly", "-t", "-v"] },
])("joins $name", ({ args, want }) => {
  expect(joinFlagValues(args, COMMANDS)).toEqual(want);
});
