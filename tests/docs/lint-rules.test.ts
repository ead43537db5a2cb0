// SPDX-License-Identifier: Apache-2.0
// The rules of hack/lint report exactly what they forbid.
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { ROOT } from "./documents.ts";

const CONFIG = ".oxlintrc.json";

const withDirective = (text: string): string => `// oxlint-disable-next-line ${text}\nvoid Date;\n`;

const CLIENT = "@kubernetes/client-node";

const ROWS = [
  { name: "a default export", given: "export default 1;", want: ["patchbay(named-exports)"] },
  {
    name: "a wildcard export",
    given: 'export * from "./rules.ts";',
    want: ["patchbay(named-exports)"],
  },
  {
    name: "a namespace export",
    given: 'export * as rules from "./rules.ts";',
    want: [],
  },
  {
    name: "a log message with a value in it",
    given: [
      "interface Log { info(message: string, fields: object): void }",
      "export function tell(log: Log, nic: string): void {",
      "  log.info(`plugged ${nic}`, {});",
      '  log.info("plugged", { nic: `nic ${nic}` });',
      "}",
    ].join("\n"),
    want: ["patchbay(constant-messages)"],
  },
  {
    name: "a spread of an object literal",
    given: "export const both = { ...{ a: 1 }, b: 2 };",
    want: ["patchbay(no-literal-spread)"],
  },
  {
    name: "a spread of an array literal",
    given: "export const both = [...[1, 2], 3];",
    want: ["patchbay(no-literal-spread)"],
  },
  {
    name: "a spread of a condition",
    given: "export const some = (isSet: boolean): object => ({ ...(isSet ? { a: 1 } : {}) });",
    want: [],
  },
  ...[
    'export { Observable } from "rxjs/internal/Observable";',
    'export * as agent from "undici/lib/dispatcher/agent.js";',
    'import Agent from "undici/lib/dispatcher/agent.js";\nvoid Agent;',
    'void import("@kubernetes/client-node/dist/exec_auth.js");',
    'import type { ExecAuth } from "@kubernetes/client-node/dist/exec_auth.js";\nexport type Auth = ExecAuth;',
    'declare module "undici/lib/dispatcher/agent.js" {}',
    `export const MODELS = "../../node_modules/${CLIENT}/dist/gen/models/";`,
  ].map((given) => ({
    name: `an import of a library's internal module: ${given}`,
    given,
    want: ["patchbay(no-library-internals)"],
  })),
  {
    name: "an import of a library's public module or of a module in this repository",
    given: [
      'export { Agent } from "undici";',
      'export { map } from "rxjs/operators";',
      'export type * as meta from "@patchbay/core/interfaces";',
      'export * as own from "../src/lib/own.ts";',
      'export const PROGRAM = "node_modules/.bin/node";',
    ].join("\n"),
    want: [],
  },
  {
    name: "a regular expression that backtracks",
    given: "export const ways = /^(?:a+)+$/;",
    want: ["regexp(no-super-linear-backtracking)"],
  },
  {
    name: "a regular expression with quadratic backtracking",
    given: "export const anew = /a*b/;",
    want: ["regexp(no-super-linear-move)"],
  },
  {
    name: "a call of RegExp that backtracks",
    given: 'export const ways = new RegExp("^(?:a+)+$");',
    want: ["regexp(no-super-linear-backtracking)"],
  },
  {
    name: "a directive with a reason",
    given: withDirective("no-restricted-globals -- a test"),
    want: [],
  },
  {
    name: "a directive without a reason",
    given: withDirective("no-restricted-globals"),
    want: ["patchbay(explained-directives)"],
  },
  {
    name: "a directive that names no rule",
    given: withDirective("-- a test"),
    want: ["patchbay(explained-directives)"],
  },
  {
    name: "a directive for a whole file",
    given: "/* oxlint-disable no-restricted-globals -- a test */\nvoid Date;",
    want: ["patchbay(explained-directives)"],
  },
  {
    name: "a directive of ESLint",
    given: "// eslint-disable-next-line no-restricted-globals -- a test\nvoid Date;",
    want: ["patchbay(explained-directives)"],
  },
];

interface Report {
  readonly diagnostics: readonly { readonly code: string; readonly filename: string }[];
}

/** Runs oxlint once for all rows, because its start takes longer than its work here. */
function lintRows(): readonly (readonly string[])[] {
  const dir = mkdtempSync(join(tmpdir(), "patchbay-lint-"));
  try {
    const files = ROWS.map(({ given: input }, index) => {
      const file = join(dir, `${String(index)}.ts`);
      writeFileSync(file, input);
      return file;
    });
    const argv = ["--config", join(ROOT, CONFIG), "--format=json", ...files];
    const program = join(ROOT, "node_modules/.bin/oxlint");
    const { stdout } = spawnSync(program, argv, { cwd: dir, encoding: "utf8" });
    const { diagnostics } = JSON.parse(stdout) as Report;
    return files.map((file) =>
      diagnostics
        .filter(({ filename }) => basename(filename) === basename(file))
        .map(({ code }) => code)
        .toSorted(),
    );
  } finally {
    rmSync(dir, { recursive: true });
  }
}

let reported: readonly (readonly string[])[] = [];
beforeAll(() => {
  reported = lintRows();
});

test.each(ROWS.map((row, index) => ({ ...row, index })))("$name", ({ index, want }) => {
  expect(reported[index]).toEqual(want);
});
