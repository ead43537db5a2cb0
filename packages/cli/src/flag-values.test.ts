// SPDX-License-Identifier: Apache-2.0
import { expect, test, describe } from "vitest";
import { COMMANDS } from "./commands/table.ts";
import {
  joinFlagValues,
  parseAmount,
  parseCount,
  parseDuration,
  parseGroup,
  parsePort,
} from "./flag-values.ts";

const OPTION = "-o StrictHostKeyChecking=no";

test.each([
  {
    name: "a short flag of the command",
    args: ["ssh", "-t", OPTION, "-t", "-v", "vm/web"],
    want: ["ssh", `--local-ssh-opts=${OPTION}`, "--local-ssh-opts=-v", "vm/web"],
  },
  {
    name: "a long flag after a global flag",
    args: ["-n", "blue", "scp", "--local-ssh-opts", OPTION, "a", "vm/web:b"],
    want: ["-n", "blue", "scp", `--local-ssh-opts=${OPTION}`, "a", "vm/web:b"],
  },
  {
    name: "a flag of a two-word command",
    args: ["set", "interface", "web", "--network", "-x"],
    want: ["set", "interface", "web", "--network=-x"],
  },
  {
    name: "not an argument without a dash",
    args: ["ssh", "-l", "root", "-c", "ls", "vm/web"],
    want: ["ssh", "-l", "root", "-c", "ls", "vm/web"],
  },
  {
    name: "not a flag without a value",
    args: ["addinterface", "web", "--check", "--keep"],
    want: ["addinterface", "web", "--check", "--keep"],
  },
  {
    name: "nothing after --",
    args: ["ssh", "--", "-t", "-v"],
    want: ["ssh", "--", "-t", "-v"],
  },
  { name: "not flags of an unknown command", args: ["fly", "-t", "-v"], want: ["fly", "-t", "-v"] },
])("joins $name", ({ args, want }) => {
  expect(joinFlagValues(args, COMMANDS)).toEqual(want);
});

describe("parseDuration", () => {
  test.each([
    { text: "120s", want: 120_000 },
    { text: "2m", want: 120_000 },
    { text: "1m30s", want: 90_000 },
    { text: "250ms", want: 250 },
    { text: "1h", want: 3_600_000 },
  ])("$text is $want milliseconds", ({ text, want }) => {
    expect(parseDuration(text)).toBe(want);
  });

  test.each(["", "5", "s", "5 s", "-5s", "5sx", "1d"])("rejects %j", (text) => {
    expect(() => parseDuration(text)).toThrow("It must be a duration");
  });
});

describe("parsePort", () => {
  test("accepts a number of 16 bits", () => {
    expect(parsePort("0")).toBe(0);
    expect(parsePort("65535")).toBe(65_535);
  });

  test.each(["65536", "-1", "http", "", "1.5"])("rejects %j", (text) => {
    expect(() => parsePort(text)).toThrow("It must be a number");
  });
});

describe("parseCount", () => {
  test("accepts a number from 1", () => {
    expect(parseCount("16")).toBe(16);
  });

  test.each(["0", "-1", "1.5", "two", ""])("rejects %j", (text) => {
    expect(() => parseCount(text)).toThrow("It must be a number of at least 1");
  });
});

describe("parseGroup", () => {
  test.each(["0", "1001", "4294967294"])("accepts %s", (text) => {
    expect(parseGroup(text)).toBe(Number(text));
  });

  test.each(["107", "4294967295", "-1", "hugetlbfs", ""])("rejects %j", (text) => {
    expect(() => parseGroup(text)).toThrow("It must be the number of a group");
  });
});

describe("parseAmount", () => {
  test.each(["512Mi", "1.5Gi", "10G", "1073741824"])("returns %s unchanged", (text) => {
    expect(parseAmount(text)).toBe(text);
  });

  test.each(["0", "10GB", "10 Gi", "Gi", "-1Gi", ""])("rejects %j", (text) => {
    expect(() => parseAmount(text)).toThrow("It must be an amount");
  });
});
