// SPDX-License-Identifier: Apache-2.0
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { ImportGraph } from "./imports.ts";

let root = "";
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), "patchbay-imports-"));
});
afterEach(() => {
  rmSync(root, { recursive: true, force: true });
});

const MANIFEST = JSON.stringify({ exports: { ".": { "@patchbay/source": "./src/index.ts" } } });

function reachable(files: Readonly<Record<string, string>>, b = "packages/b"): readonly string[] {
  for (const [path, text] of Object.entries({ [`${b}/package.json`]: MANIFEST, ...files })) {
    mkdirSync(dirname(join(root, path)), { recursive: true });
    writeFileSync(join(root, path), text);
  }
  const reached = new ImportGraph(root).reachableFrom(["packages/a/src/main.ts"]);
  return [...reached].map((path) => path.replace("packages/", "").replace("/src/", ":")).sort();
}

const DOOR = {
  "packages/b/src/index.ts": `export { one } from "./one.ts";
    export { inner as two, type Two } from "./two.ts";
    export * as words from "./words.ts";`,
  "packages/b/src/one.ts": "export const one = 1;",
  "packages/b/src/two.ts": "export const inner = 2; export type Two = 2;",
  "packages/b/src/words.ts": "export const word = 'x';",
};

test.each([
  {
    name: "a name resolves through the index file to its source file only",
    main: 'import { one } from "@patchbay/b";',
    want: ["a:main.ts", "b:index.ts", "b:one.ts"],
  },
  {
    name: "an alias resolves in the same way",
    main: 'import { two as second } from "@patchbay/b";',
    want: ["a:main.ts", "b:index.ts", "b:two.ts"],
  },
  {
    name: "a namespace import loads the whole index file",
    main: 'import { words } from "@patchbay/b";',
    want: ["a:main.ts", "b:index.ts", "b:words.ts"],
  },
  {
    name: "types are not loaded",
    main: 'import type { Two } from "@patchbay/b"; import { type Two as T } from "@patchbay/b";',
    want: ["a:main.ts", "b:index.ts"],
  },
  {
    name: "a dynamic import loads the whole index file",
    main: 'void import("@patchbay/b");',
    want: ["a:main.ts", "b:index.ts", "b:one.ts", "b:two.ts", "b:words.ts"],
  },
])("$name", ({ main, want }) => {
  expect(reachable({ ...DOOR, "packages/a/src/main.ts": main })).toEqual(want);
});

test("includes sibling files, also in a cycle, and the programs that they start", () => {
  const reached = reachable({
    "packages/a/src/main.ts": 'import { x } from "./x.ts"; import "node:fs";',
    "packages/a/src/x.ts": 'import "./main.ts"; new URL("./child.ts", import.meta.url);',
    "packages/a/src/child.ts": "",
    "packages/a/src/other.ts": "",
  });
  expect(reached).toEqual(["a:child.ts", "a:main.ts", "a:x.ts"]);
});

test("a folder that a move left behind does not represent its package", () => {
  for (const remaining of [
    "packages/b",
    "packages/adapters/b",
    "packages/standalone/b",
    "packages/z/b",
  ]) {
    mkdirSync(join(root, remaining, "dist"), { recursive: true });
  }
  const main = { "packages/a/src/main.ts": 'import { one } from "@patchbay/b";' };
  const files = { "packages/control-plane/b/src/index.ts": "export const one = 1;" };
  const want = ["a:main.ts", "control-plane/b:index.ts"];
  expect(reachable({ ...main, ...files }, "packages/control-plane/b")).toEqual(want);
});
