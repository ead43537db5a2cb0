// SPDX-License-Identifier: Apache-2.0
// Is every rule of the strictest set that typescript-eslint has one that oxlint is told to look for? Does it find what
// only plugins know, and is what is found silenced in one way?
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import tseslint from "typescript-eslint";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { readText, ROOT } from "./documents.ts";

/** What oxlint does not know (ADR 0114). */
const UNKNOWN = ["no-unsafe-class-instance-assignment"];
const OWN = "@typescript-eslint/";
const CONFIG = ".oxlintrc.json";

/** Names of rules without their plugin: oxlint counts some of typescript-eslint's as ESLint's, which they extend. */
function strictRules(): readonly string[] {
  const rules = tseslint.configs.strictTypeChecked.flatMap((each) =>
    Object.entries(each.rules ?? {}),
  );
  return rules
    .filter(([name, how]) => name.startsWith(OWN) && how !== "off")
    .map(([name]) => name.replace(OWN, ""));
}

test("oxlint looks for every rule of typescript-eslint's strictest set", () => {
  // JSON with comments, each on a line of its own.
  const lines = readText(CONFIG).split("\n");
  const text = lines.filter((line) => !line.trimStart().startsWith("//")).join("\n");
  const { rules } = parse(text) as { readonly rules: Readonly<Record<string, unknown>> };
  const wanted = strictRules();
  expect(wanted).toEqual(expect.arrayContaining(UNKNOWN));
  const missing = wanted.filter((name) => !(name in rules) && !(`typescript/${name}` in rules));
  expect(missing).toEqual(UNKNOWN);
});

const silence = (text: string): string => `// oxlint-disable-next-line ${text}\nvoid Date;\n`;

const ROWS = [
  { says: "a default export", source: "export default 1;", found: ["patchbay(named-exports)"] },
  {
    says: "an export of all names",
    source: 'export * from "./rules.ts";',
    found: ["patchbay(named-exports)"],
  },
  { says: "names of another module", source: 'export * as rules from "./rules.ts";', found: [] },
  {
    says: "a message with a value in it",
    source: [
      "interface Log { info(message: string, fields: object): void }",
      "export function tell(log: Log, nic: string): void {",
      "  log.info(`plugged ${nic}`, {});",
      '  log.info("plugged", { nic: `nic ${nic}` });',
      "}",
    ].join("\n"),
    found: ["patchbay(constant-messages)"],
  },
  {
    says: "an expression that matches in two ways",
    source: "export const ways = /^(?:a+)+$/;",
    found: ["regexp(no-super-linear-backtracking)"],
  },
  {
    says: "one that is begun anew at each letter",
    source: "export const anew = /a*b/;",
    found: ["regexp(no-super-linear-move)"],
  },
  {
    says: "a call that makes one that matches in two ways",
    source: 'export const ways = new RegExp("^(?:a+)+$");',
    found: ["regexp(no-super-linear-backtracking)"],
  },
  {
    says: "a docstring that is not TSDoc",
    source: "/** @returns {string} a name */\nexport const name = 1;",
    found: ["tsdoc(syntax)", "tsdoc(syntax)"],
  },
  { says: "a name for later", source: "const _later = 1;", found: ["eslint(no-unused-vars)"] },
  { says: "a clock", source: "void Date;", found: ["eslint(no-restricted-globals)"] },
  {
    says: "what is silenced with a reason",
    source: silence("no-restricted-globals -- a test"),
    found: [],
  },
  {
    says: "what is silenced without one",
    source: silence("no-restricted-globals"),
    found: ["patchbay(explained-directives)"],
  },
  {
    says: "a silence that names no rule",
    source: silence("-- a test"),
    found: ["patchbay(explained-directives)"],
  },
  {
    says: "a silence for a whole file",
    source: "/* oxlint-disable no-restricted-globals -- a test */\nvoid Date;",
    found: ["patchbay(explained-directives)"],
  },
  {
    says: "a silence in ESLint's words",
    source: "// eslint-disable-next-line no-restricted-globals -- a test\nvoid Date;",
    found: ["patchbay(explained-directives)"],
  },
  {
    says: "a silence where nothing is found",
    source: "// oxlint-disable-next-line no-restricted-globals -- a test\nexport const quiet = 1;",
    found: ["Unused oxlint-disable directive (no problems were reported)."],
  },
];

interface Report {
  readonly diagnostics: readonly {
    readonly code?: string;
    readonly message: string;
    readonly filename: string;
  }[];
}

/** What oxlint finds in each row's source, as PLUGIN(RULE), or as words where it is not of a rule. */
function findAll(): readonly (readonly string[])[] {
  const dir = mkdtempSync(join(tmpdir(), "patchbay-lint-"));
  try {
    const files = ROWS.map(({ source }, index) => {
      const file = join(dir, `${String(index)}.ts`);
      writeFileSync(file, source);
      return file;
    });
    const argv = ["--config", join(ROOT, CONFIG), "--format=json", ...files];
    const program = join(ROOT, "node_modules/.bin/oxlint");
    const { stdout } = spawnSync(program, argv, { cwd: dir, encoding: "utf8" });
    // Written by oxlint.
    const { diagnostics } = JSON.parse(stdout) as Report;
    return files.map((file) =>
      diagnostics
        .filter(({ filename }) => basename(filename) === basename(file))
        .map(({ code, message }) => code ?? message)
        .toSorted(),
    );
  } finally {
    rmSync(dir, { recursive: true });
  }
}

test("oxlint finds what is wrong, and nothing else", () => {
  const found = findAll().map((codes, index) => ({ says: ROWS[index]?.says, codes }));
  expect(found).toEqual(ROWS.map(({ says, found: codes }) => ({ says, codes })));
});
