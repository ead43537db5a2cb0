// SPDX-License-Identifier: Apache-2.0
// Words that the glossary retires must not come back.
import { describe, expect, test } from "vitest";
import { listFiles, readText } from "./documents.ts";

/** Where a word is forbidden: identifiers and files, type suffixes, or all prose. */
const SCOPES = ["names", "types", "prose"] as const;
type Scope = (typeof SCOPES)[number];

interface Retired {
  /** Lower case, its parts separated by spaces. */
  readonly word: string;
  readonly scopes: readonly string[];
}

const GLOSSARY = "docs/glossary.md";
/** These files name the retired words. */
const EXEMPT: readonly string[] = [GLOSSARY, "tests/docs/retired-words.test.ts"];
const IDENTIFIER = /[A-Za-z_$][\w$]*/g;

function parseRetired(page: string): readonly Retired[] {
  const [, table = ""] = page.split("## Words that are not used");
  return table.split("\n").flatMap((line) => {
    const [, words = "", , scopes = ""] = line.split("|");
    return [...words.matchAll(/`([^`]+)`/g)].map(([, word = ""]) => ({
      word,
      scopes: scopes.split(",").map((scope) => scope.trim()),
    }));
  });
}

/** A name's parts, each surrounded by spaces: `planNetworkSwap` is ` plan network swap `. */
function spell(name: string): string {
  const parts = name
    .replaceAll(/([a-z\d])([A-Z])/g, "$1 $2")
    .replaceAll(/([A-Z])([A-Z][a-z])/g, "$1 $2");
  return ` ${parts
    .replaceAll(/[^A-Za-z\d]+/g, " ")
    .trim()
    .toLowerCase()} `;
}

/** Comments and quoted text, which contain no names. */
const NO_CODE = /\/\*[\s\S]*?\*\/|\/\/[^\n]*|"(?:[^"\\\n]|\\.)*"/g;

function namesOf(path: string, text: string): ReadonlySet<string> {
  const code = path.endsWith(".ts") ? text.replaceAll(NO_CODE, " ") : "";
  const identifiers = code.match(IDENTIFIER) ?? [];
  return new Set([...identifiers, path.split("/").at(-1) ?? ""]);
}

function isIn({ word, scopes }: Retired, name: string): boolean {
  const spelled = spell(name);
  if (scopes.includes("names") && spelled.includes(` ${word} `)) return true;
  return scopes.includes("types") && /^[A-Z][a-z]/.test(name) && spelled.endsWith(` ${word} `);
}

class WordFinder {
  readonly #retired: readonly Retired[];
  readonly #prose: RegExp;
  /** Names that were checked. */
  readonly #isRetired = new Map<string, boolean>();

  constructor(retired: readonly Retired[]) {
    this.#retired = retired;
    const words = retired.filter(({ scopes }) => scopes.includes("prose"));
    // A comment's line may end within a word.
    const patterns = words.map(({ word }) => word.replaceAll(" ", String.raw`[\s/*#]+`));
    this.#prose = new RegExp(String.raw`\b(?:${patterns.join("|")})\b`, "gi");
  }

  find(path: string, text: string): readonly string[] {
    const names = [...namesOf(path, text)];
    const found = [
      ...names.filter((name) => this.#judge(name)),
      ...(text.match(this.#prose) ?? []).map((words) => JSON.stringify(words)),
    ];
    return found.map((name) => `${path}: ${name}`);
  }

  #judge(name: string): boolean {
    const known = this.#isRetired.get(name);
    if (known !== undefined) return known;
    const isRetired = this.#retired.some((entry) => isIn(entry, name));
    this.#isRetired.set(name, isRetired);
    return isRetired;
  }
}

const RETIRED = parseRetired(readText(GLOSSARY));
const finder = new WordFinder(RETIRED);

test("the glossary lists words and where each is forbidden", () => {
  expect(RETIRED.length).toBeGreaterThan(15);
  const known = (scope: string): scope is Scope => SCOPES.some((each) => each === scope);
  expect(RETIRED.filter(({ scopes }) => !scopes.every(known))).toEqual([]);
});

describe("finds a retired word", () => {
  test.each([
    { name: "in an identifier", path: "a.ts", text: "function addressWishOf() {}" },
    { name: "in a constant", path: "a.ts", text: "const PATIENCE_MS = 1;" },
    { name: "in several parts", path: "a.ts", text: "switchNetwork();" },
    { name: "at the end of a type", path: "a.ts", text: "type StepsOutcome = 1;" },
    { name: "in the name of a file", path: "src/address-wish.ts", text: "" },
    { name: "in a comment, over two lines", path: "a.ts", text: "// the node\n// agent\n" },
    { name: "in a documentation page", path: "a.md", text: "It is a penalty." },
  ])("$name", ({ path, text }) => {
    expect(finder.find(path, text)).toHaveLength(1);
  });

  test.each([
    { name: "a part of another word", path: "a.ts", text: "const isTrayOpen = returned;" },
    {
      name: "a variable if the word is retired for types only",
      path: "a.ts",
      text: "const outcome = turn;",
    },
    {
      name: "prose if the word is retired for names only",
      path: "a.md",
      text: "It rests at first sight.",
    },
  ])("not $name", ({ path, text }) => {
    expect(finder.find(path, text)).toEqual([]);
  });
});

test("no retired word is used", () => {
  const paths = listFiles("*.ts", "*.md").filter((path) => !EXEMPT.includes(path));
  expect(paths.length).toBeGreaterThan(1000);
  expect(paths.flatMap((path) => finder.find(path, readText(path)))).toEqual([]);
});
