// SPDX-License-Identifier: Apache-2.0
// Each step of a walk is one file that its process imports.
import { existsSync, globSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { listDocuments, ROOT } from "./documents.ts";
import { ImportGraph } from "./imports.ts";

const PURE = /^packages\/control-plane\/(api|core|domain)\//;
const STEP = /^\| +(\d+) \|([^|]*)\|([^|]*)\|/gm;

interface Step {
  readonly number: number;
  /** A step without a process continues in the previous one. */
  readonly process: string;
  readonly paths: readonly string[];
  readonly isPure: boolean;
}

function stepsOf(text: string): readonly Step[] {
  let last = "";
  return [...text.matchAll(STEP)].map(([, number, process = "", file = ""]) => {
    last = process.trim() === "" ? last : process.trim();
    return {
      number: Number(number),
      process: last,
      paths: [...file.matchAll(/`([^`]+)`/g)].map(([, path = ""]) => path),
      isPure: file.includes("(pure)"),
    };
  });
}

function entriesOf(process: string): readonly string[] {
  if (process === "virt-launcher") return []; // shell scripts
  if (process === "libvirt child") return ["packages/adapters/libvirt/src/child.ts"];
  if (process === "patchbay") return ["packages/cli/src/main.ts"];
  return globSync(`packages/{*/,}${process}/src/main.ts`, { cwd: ROOT });
}

const graph = new ImportGraph(ROOT);
const reached = new Map<string, ReadonlySet<string>>();

/** Whether the process loads the file; native code has no imports and counts as loaded. */
function isReached({ process, paths }: Step): boolean {
  const known = reached.get(process) ?? graph.reachableFrom(entriesOf(process));
  reached.set(process, known);
  return paths.every((path) => known.has(path) || !path.endsWith(".ts"));
}

const walks = listDocuments()
  .filter(({ path }) => path.startsWith("docs/walks/"))
  .map(({ path, text }) => ({ path, steps: stepsOf(text) }));

test("at least one walk exists", () => {
  expect(walks.map(({ path }) => path)).toEqual([
    "docs/walks/add-iface.md",
    "docs/walks/doctor.md",
    "docs/walks/migrate.md",
    "docs/walks/remove-iface.md",
    "docs/walks/start-from-disk.md",
  ]);
});

describe.each(walks)("$path", ({ steps }) => {
  test("numbers its steps", () => {
    expect(steps.length).toBeGreaterThan(10);
    expect(steps.map(({ number }) => number)).toEqual(steps.map((_, index) => index + 1));
  });

  test("names one existing file in each step", () => {
    const wrong = steps.filter(
      ({ paths }) => paths.length !== 1 || !paths.every((path) => existsSync(join(ROOT, path))),
    );
    expect(wrong).toEqual([]);
  });

  test("marks pure steps as pure", () => {
    const wrong = steps.filter(
      ({ paths, isPure }) => isPure !== paths.every((path) => PURE.test(path)),
    );
    expect(wrong).toEqual([]);
  });

  test("names only modules that each process loads", () => {
    expect(steps.filter((step) => !isReached(step))).toEqual([]);
  });
});
