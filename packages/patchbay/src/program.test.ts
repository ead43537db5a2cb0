// SPDX-License-Identifier: Apache-2.0
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { CommanderError } from "commander";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { COMMANDS } from "./commands/table.ts";
import { createProgram } from "./program.ts";

let directory = "";
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "patchbay-program-"));
});
afterEach(() => {
  rmSync(directory, { recursive: true, force: true });
});

interface Ended {
  readonly out: string;
  readonly err: string;
  readonly error: unknown;
}

/** Runs the program in this process. */
async function patchbay(...args: readonly string[]): Promise<Ended> {
  const texts = { out: "", err: "" };
  const program = createProgram({
    out: { write: (text) => (texts.out += text) },
    err: { write: (text) => (texts.err += text) },
    environment: {},
    version: "1.2.3",
    signal: new AbortController().signal,
  });
  try {
    await program.parseAsync(args, { from: "user" });
  } catch (error) {
    return { ...texts, error };
  }
  return { ...texts, error: undefined };
}

describe("the help", () => {
  test.each(COMMANDS.map(({ name, flags }) => ({ name, flags })))(
    "of $name names its flags and the global ones",
    async ({ name, flags }) => {
      const { out, error } = await patchbay(...name.split(" "), "--help");
      expect(error).toMatchObject({ exitCode: 0 });
      for (const flag of flags) expect(out).toContain(flag.flags);
      expect(out).toContain("--kubeconfig <file>");
    },
  );
});

describe("a wrong call is refused", () => {
  test.each([
    { name: "unknown command", args: ["plug"] },
    { name: "no command", args: [] },
    { name: "group without command", args: ["get"] },
    { name: "missing argument", args: ["start"] },
    { name: "argument too many", args: ["start", "a", "b"] },
    { name: "missing flag", args: ["addinterface", "vm", "--name", "x"] },
    { name: "unknown flag", args: ["start", "vm", "--fast"] },
    { name: "bad format", args: ["version", "-o", "xml"] },
    { name: "bad duration", args: ["start", "vm", "--timeout", "soon"] },
    { name: "bad port", args: ["apiserver", "--port", "https"] },
    { name: "unknown shell", args: ["completion", "fish"] },
  ])("$name", async ({ args }) => {
    const { err, error } = await patchbay(...args);
    expect(error).toBeInstanceOf(CommanderError);
    expect(err).not.toBe("");
  });
});

describe("the output format", () => {
  test.each([
    { format: "table", want: "patchbay 1.2.3\n" },
    { format: "json", want: '{\n  "version": "1.2.3"\n}\n' },
    { format: "yaml", want: "version: 1.2.3\n" },
    { format: "name", want: "1.2.3\n" },
  ])("may be $format, named before or after the command", async ({ format, want }) => {
    expect((await patchbay("version", "-o", format)).out).toBe(want);
    expect((await patchbay("-o", format, "version")).out).toBe(want);
  });
});

describe("images", () => {
  const image = (...args: readonly string[]): Promise<Ended> =>
    patchbay("image", ...args, "--data-dir", join(directory, "data"));

  test("are none where there is no machine", async () => {
    expect((await image("list")).out).toBe("no images\n");
    expect(readdirSync(directory)).toEqual([]);
  });

  test.each([
    ["remove", "../evil"],
    ["add", "../evil", "/"],
  ])("%s %s is refused before anything is made", async (...args) => {
    expect((await image(...args)).error).toMatchObject({ code: "IMAGE_NAME_INVALID" });
    expect(readdirSync(directory)).toEqual([]);
  });
});
