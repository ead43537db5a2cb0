// SPDX-License-Identifier: Apache-2.0
// Paths, links, commands and code words that the documents mention.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";

export const ROOT = join(import.meta.dirname, "../..");

export interface Document {
  /** Below the root. */
  readonly path: string;
  readonly text: string;
}

/** A reference in a document. */
export interface Mention {
  readonly document: string;
  readonly line: number;
  readonly text: string;
}

/** Files of the repository, including uncommitted ones. */
export function listFiles(...patterns: readonly string[]): readonly string[] {
  const args = ["ls-files", "--cached", "--others", "--exclude-standard", "--", ...patterns];
  const text = execFileSync("git", args, { cwd: ROOT, encoding: "utf8" });
  return [...new Set(text.split("\n").filter((path) => path !== ""))].sort();
}

export function readText(path: string): string {
  return readFileSync(join(ROOT, path), "utf8");
}

export function listDocuments(): readonly Document[] {
  return listFiles("*.md").map((path) => ({ path, text: readText(path) }));
}

/** Matches of a pattern with one group, by line. */
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

/** Text in backticks. */
export function findCodeSpans(documents: readonly Document[]): readonly Mention[] {
  return findMentions(documents, /`([^`]+)`/g);
}

/** Command lines in indented or fenced code blocks and in backticks. */
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
