// SPDX-License-Identifier: Apache-2.0
// Measures readability of the sources and draws random comments and identifiers for review.
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join, posix } from "node:path";
import { parseArgs } from "node:util";
import ts from "typescript";

const ROOT = join(import.meta.dirname, "..");
const WALK = "docs/walks/add-iface.md";
const SMALL_LINES = 60;
const SAMPLE_SIZE = 100;

interface Source {
  readonly path: string;
  readonly file: ts.SourceFile;
  readonly lines: number;
}

function listPaths(pattern: string): readonly string[] {
  const listed = execFileSync("git", ["ls-files", "--", pattern], { cwd: ROOT, encoding: "utf8" });
  return listed.split("\n").filter((path) => path !== "" && existsSync(join(ROOT, path)));
}

function read(path: string): Source {
  const text = readFileSync(join(ROOT, path), "utf8");
  const file = ts.createSourceFile(path, text, ts.ScriptTarget.Latest, true);
  return { path, file, lines: text.split("\n").length - 1 };
}

function isTest(path: string): boolean {
  return /(?:\.test\.ts|\.gen\.ts)$|\/testing\//.test(path);
}

/** Lists each comment once, with its position. */
function commentsOf({ file }: Source): readonly ts.CommentRange[] {
  const found = new Map<number, ts.CommentRange>();
  const visit = (node: ts.Node): void => {
    const ranges = [
      ...(ts.getLeadingCommentRanges(file.text, node.pos) ?? []),
      ...(ts.getTrailingCommentRanges(file.text, node.end) ?? []),
    ];
    for (const range of ranges) found.set(range.pos, range);
    ts.forEachChild(node, visit);
  };
  visit(file);
  visit(file.endOfFileToken);
  const ranges = [...found.values()].filter(
    ({ pos, end }) => !file.text.slice(pos, end).includes("SPDX-License-Identifier"),
  );
  return joinLines(
    ranges.toSorted((a, b) => a.pos - b.pos),
    file.text,
  );
}

/** Joins the lines of a comment that consists of several `//` lines. */
function joinLines(ranges: readonly ts.CommentRange[], text: string): readonly ts.CommentRange[] {
  const joined: ts.CommentRange[] = [];
  for (const range of ranges) {
    const last = joined.at(-1);
    const isContinued =
      last?.kind === ts.SyntaxKind.SingleLineCommentTrivia &&
      range.kind === last.kind &&
      /^\n *$/.test(text.slice(last.end, range.pos));
    if (isContinued) joined[joined.length - 1] = { ...last, end: range.end };
    else joined.push(range);
  }
  return joined;
}

function lineCount({ file }: Source, { pos, end }: ts.CommentRange): number {
  return file.text.slice(pos, end).split("\n").length;
}

/** Counts spreads of object and array literals. */
function countLiteralSpreads({ file }: Source): number {
  let count = 0;
  const visit = (node: ts.Node): void => {
    const isSpread = ts.isSpreadAssignment(node) || ts.isSpreadElement(node);
    if (isSpread) {
      const { expression } = node;
      const inner = ts.isAsExpression(expression) ? expression.expression : expression;
      const plain = ts.isParenthesizedExpression(inner) ? inner.expression : inner;
      if (ts.isObjectLiteralExpression(plain) || ts.isArrayLiteralExpression(plain)) count += 1;
    }
    ts.forEachChild(node, visit);
  };
  visit(file);
  return count;
}

/** Lists the names that the file declares. */
function identifiersOf({ file }: Source): readonly string[] {
  const names = new Set<string>();
  const visit = (node: ts.Node): void => {
    if (ts.isIdentifier(node) && "name" in node.parent && node.parent.name === node) {
      if (!ts.isPropertyAccessExpression(node.parent)) names.add(node.text);
    }
    ts.forEachChild(node, visit);
  };
  visit(file);
  return [...names];
}

/** Returns, for each file, the product files that import it by a relative path. */
function importersOf(sources: readonly Source[]): ReadonlyMap<string, ReadonlySet<string>> {
  const importers = new Map<string, Set<string>>();
  for (const { path, file } of sources) {
    for (const { fileName } of ts.preProcessFile(file.text).importedFiles) {
      if (!fileName.startsWith(".")) continue;
      const target = posix.join(dirname(path), fileName);
      const known = importers.get(target) ?? new Set();
      importers.set(target, known.add(path));
    }
  }
  return importers;
}

function quantile(values: readonly number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b);
  return sorted[Math.floor((sorted.length - 1) * share)] ?? 0;
}

/** Returns a generator of numbers from 0 to 1, reproducible by seed. Source: Marsaglia, Xorshift RNGs (2003). */
function randomNumbers(seed: number): () => number {
  let state = (seed ^ 0x9e37_79b9) >>> 0 || 1;
  return () => {
    state ^= state << 13;
    state ^= state >>> 17;
    state ^= state << 5;
    return (state >>> 0) / 2 ** 32;
  };
}

function draw<T>(all: readonly T[], next: () => number): readonly T[] {
  return all
    .map((value) => ({ value, key: next() }))
    .toSorted((a, b) => a.key - b.key)
    .slice(0, SAMPLE_SIZE)
    .map(({ value }) => value);
}

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

function printTable(product: readonly Source[], tests: readonly Source[]): void {
  const sizes = product.map(({ lines }) => lines);
  const importers = importersOf(product);
  const single = product.filter(({ path }) => importers.get(path)?.size === 1);
  const walk = readFileSync(join(ROOT, WALK), "utf8");
  const walked = new Set(
    walk.match(/packages\/[\w./-]+\.(?:ts|cc)\b/g)?.filter((path) => !isTest(path)),
  );
  const comments = product.flatMap((source) =>
    commentsOf(source).map((range) => lineCount(source, range)),
  );
  const sum = (values: readonly number[]): number => values.reduce((all, each) => all + each, 0);
  const rows: readonly (readonly [string, number])[] = [
    ["product files (TypeScript, without tests)", product.length],
    ["their median, lines", quantile(sizes, 0.5)],
    ["their 90th percentile, lines", quantile(sizes, 0.9)],
    ["their lines", sum(sizes)],
    ["files with one importer", single.length],
    [
      `of these at most ${String(SMALL_LINES)} lines`,
      single.filter(({ lines }) => lines <= SMALL_LINES).length,
    ],
    [`files that one plug passes through (${WALK})`, walked.size],
    ["comment lines in the product", sum(comments)],
    ["spreads of a literal in the product", sum(product.map(countLiteralSpreads))],
    ["spreads of a literal in tests", sum(tests.map(countLiteralSpreads))],
  ];
  const width = Math.max(...rows.map(([label]) => label.length));
  for (const [label, value] of rows) print(`${label.padEnd(width)}  ${String(value).padStart(7)}`);
  const groups = new Map<string, number>();
  for (const { path, lines } of product) {
    const group = path.split("/").slice(0, 2).join("/");
    groups.set(group, (groups.get(group) ?? 0) + lines);
  }
  for (const [group, lines] of groups)
    print(`lines in ${group}`.padEnd(width) + `  ${String(lines).padStart(7)}`);
}

function printSample(product: readonly Source[], seed: number): void {
  const next = randomNumbers(seed);
  const comments = product.flatMap((source) =>
    commentsOf(source).map(({ pos, end }) => {
      const line = source.file.getLineAndCharacterOfPosition(pos).line + 1;
      const text = source.file.text
        .slice(pos, end)
        .replaceAll(/\n *\/\/ ?/g, " ")
        .replaceAll(/[\n*]+/g, " ")
        .replaceAll(/ {2,}/g, " ");
      return `${source.path}:${String(line)}  ${text}`;
    }),
  );
  const names = product.flatMap((source) =>
    identifiersOf(source).map((name) => `${source.path}  ${name}`),
  );
  print(`\n## Comments, seed ${String(seed)}`);
  for (const comment of draw(comments, next)) print(comment);
  print(`\n## Identifiers, seed ${String(seed)}`);
  for (const name of draw(names, next)) print(name);
}

const { values } = parseArgs({ options: { sample: { type: "string" } } });
const product = listPaths("packages/*.ts")
  .filter((path) => !isTest(path))
  .map(read);
const tests = [...listPaths("tests/*.ts"), ...listPaths("packages/*.ts").filter(isTest)].map(read);
printTable(product, tests);
if (values.sample !== undefined) printSample(product, Number(values.sample));
