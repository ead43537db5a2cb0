// SPDX-License-Identifier: Apache-2.0
// Code blocks of the documents, and the pages whose commands tests run or check.
import { listDocuments, type Document } from "./documents.ts";
import { parseShell, type Statement } from "./shell.ts";

export interface Block {
  readonly document: string;
  /** The nearest heading above; empty if there is none. */
  readonly heading: string;
  /** Number of the first line, from 1. */
  readonly line: number;
  /** A manifest is a whole object in YAML; other YAML is data. */
  readonly kind: "shell" | "diff" | "manifest";
  readonly text: string;
}

/** A statement of a document; `line` counts from 1. */
export interface ShownStatement extends Statement {
  readonly document: string;
  readonly heading: string;
  /** Variables that earlier statements of the same block export. */
  readonly exports: string;
}

const LANGUAGES: Readonly<Record<string, Block["kind"]>> = {
  "": "shell",
  sh: "shell",
  diff: "diff",
};
const MANIFEST = /^apiVersion: /;
/** YAML, JSON and help texts, which begin unlike commands. */
const DATA = /^(?:[\w./-]+:(?:\s|$)|- |[{|<"])/;

/** Removes the indentation of the first line. */
function unindent(lines: readonly string[]): string {
  const width = /^ */.exec(lines[0] ?? "")?.[0].length ?? 0;
  return lines.map((line) => line.slice(width)).join("\n");
}

/** Returns the kind of a block; undefined if it is data, or in a language that no test reads. */
function judgeKind(language: string, content: string): Block["kind"] | undefined {
  if (MANIFEST.test(content)) return "manifest";
  return DATA.test(content) ? undefined : LANGUAGES[language];
}

function findEnd(
  lines: readonly string[],
  from: number,
  isInside: (line: string) => boolean,
): number {
  const length = lines.slice(from).findIndex((line) => !isInside(line));
  return length === -1 ? lines.length : from + length;
}

export function findBlocks({ path, text }: Document): readonly Block[] {
  const lines = text.split("\n");
  const blocks: Block[] = [];
  let heading = "";
  const add = (language: string, from: number, end: number): void => {
    const content = unindent(lines.slice(from, end)).trimEnd();
    const kind = judgeKind(language, content);
    if (kind !== undefined) {
      blocks.push({ document: path, heading, line: from + 1, kind, text: content });
    }
  };
  for (let index = 0; index < lines.length; index += 1) {
    const line = lines[index] ?? "";
    const language = /^```(\w*)$/.exec(line)?.[1];
    heading = /^#+ (.+)$/.exec(line)?.[1] ?? heading;
    if (language !== undefined) {
      const end = findEnd(lines, index + 1, (each) => each !== "```");
      add(language, index + 1, end);
      index = end;
    } else if (/^ {4,}\S/.test(line) && (lines[index - 1] ?? "") === "") {
      const end = findEnd(lines, index, (each) => /^( {4,}|$)/.test(each));
      add("", index, end);
      index = end - 1;
    }
  }
  return blocks;
}

/** Pages for developers, whose commands their own tests or the build run, and pages without commands. */
const OTHERS =
  /^(?!README\.md$|docs\/)|^docs\/(README|performance|glossary|test-results)\.md$|^docs\/(adr|walks)\/|^docs\/design\/(?!tenant-definitions)|^docs\/reference\/(annotations|config|phases|prepare-disks)\.md$/;

/** The users' and operators' pages. */
export function listPages(): readonly Document[] {
  return listDocuments().filter(({ path }) => !OTHERS.test(path));
}

export function findStatements(pages: readonly Document[]): readonly ShownStatement[] {
  return pages.flatMap(findBlocks).flatMap(({ document, heading, kind, line, text }) => {
    if (kind !== "shell") return [];
    try {
      const statements = parseShell(text);
      return statements.map((each, index) => ({
        ...each,
        document,
        heading,
        line: line + each.line,
        exports: statements
          .slice(0, index)
          .filter(({ commands }) => commands[0]?.[0] === "export")
          .map((earlier) => `${earlier.text}\n`)
          .join(""),
      }));
    } catch (error) {
      throw new Error(`${document}:${String(line)}: ${String(error)}`, { cause: error });
    }
  });
}
