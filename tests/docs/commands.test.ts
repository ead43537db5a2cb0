// SPDX-License-Identifier: Apache-2.0
// Commands in the documents must exist with their flags.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { callPatchbay } from "../../packages/cli/src/testing/run-patchbay.ts";
import {
  findCommandLines,
  listDocuments,
  printMention,
  readText,
  ROOT,
  type Mention,
} from "./documents.ts";

const documents = listDocuments();

async function helpOf(words: readonly string[]): Promise<string> {
  const { exitCode, stdout, stderr } = await callPatchbay([...words, "--help"]);
  if (exitCode !== 0) throw new Error(stderr);
  return stdout;
}

function commandsIn(help: string): readonly string[] {
  const section = help.split("\nCommands:\n")[1]?.split("\n\n")[0] ?? "";
  return [...section.matchAll(/^ {2}([a-z][^\s[<]*)/gm)].flatMap(([, word = ""]) =>
    word.split("|"),
  );
}

interface Known {
  readonly words: readonly string[];
  readonly help: string;
}

/** All commands with their help, groups resolved. */
async function listCommands(words: readonly string[] = []): Promise<readonly Known[]> {
  const help = await helpOf(words);
  const inner = commandsIn(help).filter((word) => word !== "help");
  if (inner.length === 0) return [{ words, help }];
  return (await Promise.all(inner.map((word) => listCommands([...words, word])))).flat();
}

const commands = await listCommands();

function findCommand(line: string): Known | undefined {
  const typed = line.split(/\s+/).slice(1);
  return commands.find(({ words }) => words.every((word, index) => typed[index] === word));
}

/** The fault in a command line; undefined: none. */
function problemOf({ text }: Mention): string | undefined {
  const [line = ""] = text.split(/ #|[;|>&]/, 1);
  const command = findCommand(line);
  if (command === undefined) return "there is no such command";
  const flags = [...line.matchAll(/\s(--[a-z-]+)/g)].map(([, flag = ""]) => flag);
  const unknown = flags.find((flag) => !new RegExp(`${flag}\\b`).test(command.help));
  return unknown === undefined ? undefined : `${unknown} is no flag of it`;
}

describe("the command line", () => {
  const lines = findCommandLines(documents, "patchbay").filter(
    ({ document }) => document !== "docs/reference/config.md",
  );

  test("each `patchbay …` is a command with these flags", () => {
    expect(lines.length).toBeGreaterThan(15);
    const problems = lines.flatMap((line) => {
      const problem = problemOf(line);
      return problem === undefined ? [] : [`${printMention(line)}: ${problem}`];
    });
    expect(problems).toEqual([]);
  });
});

describe("npm scripts", () => {
  test("each `npm run …` is a script", () => {
    const manifest = JSON.parse(readFileSync(join(ROOT, "package.json"), "utf8")) as {
      readonly scripts: Readonly<Record<string, string>>;
    };
    const named = findCommandLines(documents, "npm run");
    const words = named.map((mention) => ({
      ...mention,
      text: mention.text.split(/\s+/)[2] ?? "",
    }));
    expect(words.length).toBeGreaterThan(5);
    expect(words.filter(({ text }) => !(text in manifest.scripts)).map(printMention)).toEqual([]);
  });
});

describe("kubectl", () => {
  test("the documents use nothing that kubectl 1.20 does not support", () => {
    const lines = findCommandLines(documents, "kubectl");
    expect(lines.filter(({ text }) => text.includes("--subresource")).map(printMention)).toEqual(
      [],
    );
    expect(readText("README.md")).toContain("kubectl patch vm");
  });
});
