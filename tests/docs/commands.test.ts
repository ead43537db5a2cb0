// SPDX-License-Identifier: Apache-2.0
// Commands in the documents must exist with their flags. Each command in a code block of the users' and operators' pages is
// parsed here, is run by another test, or is in a list with a reason.
import { accessSync, constants } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { readConfigurationSchema } from "../../hack/chart/configuration-schema.ts";
import { readBase } from "../../hack/chart/base.ts";
import { listValues } from "../../hack/chart/values.ts";
import { createProgram } from "../../packages/cli/src/program.ts";
import { callPatchbay } from "../../packages/cli/src/testing/run-patchbay.ts";
import { findStatements, listPages } from "./code-blocks.ts";
import { findListed, LISTED_COMMANDS, type ListedCommand } from "./listed-commands.ts";
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

const manifest = JSON.parse(readText("package.json")) as {
  readonly scripts: Readonly<Record<string, string>>;
};

describe("npm scripts", () => {
  test("each `npm run …` is a script", () => {
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
    expect(readText("docs/add-a-nic.md")).toContain("kubectl patch vm");
  });
});

/** Makes all commands do nothing. */
function disarm(command: ReturnType<typeof createProgram>): void {
  if (command.commands.length === 0) command.action(() => undefined);
  command.commands.forEach(disarm);
}

/** The parser's error; undefined if there is none. */
function parseProblem(args: readonly string[]): string | undefined {
  const nothing = { write: () => undefined };
  const program = createProgram({
    out: nothing,
    err: nothing,
    environment: {},
    version: "1.2.3",
    signal: new AbortController().signal,
  });
  disarm(program);
  try {
    program.parse([...args], { from: "user" });
    return undefined;
  } catch (error) {
    return String(error);
  }
}

const chartValues = listValues(
  await readBase(),
  readConfigurationSchema(readText("crds/kubevirt.io_kubevirts.yaml")),
).map(({ name }) => name);

function helmProblem(args: readonly string[]): string | undefined {
  const settings = args.flatMap((arg, index) =>
    /^--set/.test(arg) ? [(args[index + 1] ?? "").split("=")[0] ?? ""] : [],
  );
  const unknown = settings.find((name) => !chartValues.includes(name));
  return unknown === undefined ? undefined : `the chart has no value ${unknown}`;
}

function scriptProblem(path: string): string | undefined {
  try {
    accessSync(join(ROOT, path), constants.X_OK);
    return undefined;
  } catch (error) {
    return String(error);
  }
}

/** kubectl's commands are run by tests/contract/manifests/documented-commands.long.test.ts. */
function judge(command: readonly string[]): string | undefined {
  const [program = "", ...args] = command;
  if (findListed(command) !== undefined || program === "kubectl") return undefined;
  if (/(^|\/)patchbay$/.test(program)) return parseProblem(args);
  if (program === "helm") return helmProblem(args);
  if (program.startsWith("hack/")) return scriptProblem(program);
  if (program === "npm" && args[0] === "run" && (args[1] ?? "") in manifest.scripts) {
    return undefined;
  }
  return "no test runs or checks it, and tests/docs/listed-commands.ts does not list it";
}

describe("code blocks of the users' and operators' pages", () => {
  const statements = findStatements(listPages());
  const used = statements.flatMap((each) => each.commands);

  test("each command is checked, run by a test, or listed with a reason", () => {
    expect(used.length).toBeGreaterThan(200);
    const problems = statements.flatMap(({ document, line, commands: shown }) =>
      shown.flatMap((command) => {
        const problem = judge(command);
        const place = `${document}:${String(line)} ${command.join(" ")}`;
        return problem === undefined ? [] : [`${place}: ${problem}`];
      }),
    );
    expect(problems).toEqual([]);
  });

  test("the list contains only commands that a page shows, and tests that exist", () => {
    const entries = new Set(used.map(findListed));
    expect(LISTED_COMMANDS.filter((entry) => !entries.has(entry))).toEqual([]);
    // A test that names no program reads the commands from the pages.
    const isRun = ({ words, runBy = "" }: ListedCommand): boolean =>
      new RegExp(`\\b${words.split(" ")[0] ?? ""}\\b|docs/`).test(readText(runBy));
    expect(LISTED_COMMANDS.filter((each) => each.runBy !== undefined && !isRun(each))).toEqual([]);
    expect(LISTED_COMMANDS.filter(({ runBy, reason }) => (runBy ?? reason) === undefined)).toEqual(
      [],
    );
  });

  test.each([
    { name: "an unknown program", command: ["frobnicate", "x"], want: "no test runs" },
    { name: "an unknown command", command: ["patchbay", "frobnicate"], want: "unknown command" },
    { name: "an unknown flag", command: ["patchbay", "up", "--frob"], want: "unknown option" },
    { name: "a missing argument", command: ["patchbay", "explain", "vm"], want: "missing" },
    { name: "a missing script", command: ["hack/frob"], want: "ENOENT" },
    { name: "an unknown npm script", command: ["npm", "run", "frob"], want: "no test runs" },
    { name: "an unknown value of the chart", command: ["helm", "--set", "frob=1"], want: "frob" },
  ])("reports $name", ({ command, want }) => {
    expect(judge(command)).toContain(want);
  });
});
