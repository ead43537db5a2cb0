// SPDX-License-Identifier: Apache-2.0
// What do the documents name: paths, links, commands, words?
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";

/** Root of the repository. */
export const ROOT = join(import.meta.dirname, "../..");

/** A page of documentation. */
export interface Document {
  /** Below the root. */
  readonly path: string;
  readonly text: string;
}

/** Something that a document names. */
export interface Mention {
  readonly document: string;
  readonly line: number;
  readonly text: string;
}

/** Files of the repository, also those that are not committed yet. */
export function listFiles(...patterns: readonly string[]): readonly string[] {
  const args = ["ls-files", "--cached", "--others", "--exclude-standard", "--", ...patterns];
  const text = execFileSync("git", args, { cwd: ROOT, encoding: "utf8" });
  return [...new Set(text.split("\n").filter((path) => path !== ""))].sort();
}

/** Text of a file. */
export function readText(path: string): string {
  return readFileSync(join(ROOT, path), "utf8");
}

/** Every page. */
export function listDocuments(): readonly Document[] {
  return listFiles("*.md").map((path) => ({ path, text: readText(path) }));
}

/** Matches of a pattern with one group, line by line. */
export function findMentions(documents: readonly Document[], pattern: RegExp): readonly Mention[] {
  return documents.flatMap(({ path, text }) =>
    text.split("\n").flatMap((line, index) =>
      [...line.matchAll(pattern)].map((match) => ({
        document: path,
        line: index + 1,
        text: match[1] ?? "",
      })),
    ),
  );
}

/** For messages of failed tests. */
export function printMention({ document, line, text }: Mention): string {
  return `${document}:${String(line)} ${text}`;
}

/** Text in backquotes. */
export function findCodeSpans(documents: readonly Document[]): readonly Mention[] {
  return findMentions(documents, /`([^`]+)`/g);
}

/** Command lines: in code blocks that are indented or fenced, and in backquotes. */
export function findCommandLines(
  documents: readonly Document[],
  program: string,
): readonly Mention[] {
  const start = `${program} [a-z]`;
  return [
    ...findMentions(documents, new RegExp(`^(?: {4}|\\$ )(${start}.*)$`, "g")),
    ...findMentions(documents, new RegExp(`\`(${start}[^\`]*)\``, "g")),
  ];
}
