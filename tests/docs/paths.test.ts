// SPDX-License-Identifier: Apache-2.0
// Files, links and anchors in the documents must exist.
import { existsSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { describe, expect, test } from "vitest";
import {
  findCodeSpans,
  findMentions,
  listDocuments,
  listFiles,
  printMention,
  readText,
  ROOT,
  type Mention,
} from "./documents.ts";

const documents = listDocuments();
/** Folders whose files the documents mention. */
const IN_REPOSITORY = /^(packages|hack|tests|docs|crds)\/[^\s*…<]*$/;
const BUILT = /(^|\/)(dist|build)\//;
/** A source named by the end of its path. */
const SOURCE = /^[\w@-][\w./@-]*\.(ts|cjs|cc|proto)$/;
const FOLDER = /^[\w@-][\w./@-]*\/$/;
const README_LINES_MAX = 40;

function isThere(mention: Mention): boolean {
  return existsSync(join(ROOT, mention.text));
}

/** All suffixes of paths of files and folders. */
function tailsOf(paths: readonly string[]): ReadonlySet<string> {
  const tails = new Set<string>();
  for (const path of paths) {
    const parts = path.split("/");
    for (let end = 1; end <= parts.length; end += 1)
      for (let begin = 0; begin < end; begin += 1) tails.add(parts.slice(begin, end).join("/"));
  }
  return tails;
}

/** Anchors of headings. Source: the anchors of GitHub's Markdown. */
function anchorsOf(path: string): readonly string[] {
  return [...readText(path).matchAll(/^#+ (.+)$/gm)].map(([, heading = ""]) =>
    heading
      .toLowerCase()
      .replace(/[^\w\s-]/g, "")
      .replaceAll(" ", "-"),
  );
}

function isLinkGood({ document, text }: Mention): boolean {
  const [file = "", anchor] = text.split("#");
  const path = file === "" ? document : join(dirname(document), file);
  if (!existsSync(join(ROOT, path))) return false;
  return anchor === undefined || anchorsOf(path).includes(anchor);
}

describe("targets of links in documents exist", () => {
  test("files and folders of the repository in backticks", () => {
    const paths = findCodeSpans(documents).filter(
      ({ text }) => IN_REPOSITORY.test(text) && !BUILT.test(text),
    );
    expect(paths.length).toBeGreaterThan(100);
    expect(paths.filter((path) => !isThere(path)).map(printMention)).toEqual([]);
  });

  test("sources and, in a package's README, folders, relative to any folder", () => {
    const tails = tailsOf(listFiles());
    const isPackage = (document: string): boolean => /^packages\/.*README\.md$/.test(document);
    const named = findCodeSpans(documents).filter(
      ({ document, text }) => SOURCE.test(text) || (isPackage(document) && FOLDER.test(text)),
    );
    expect(named.length).toBeGreaterThan(100);
    const missing = named.filter(
      ({ text }) => !tails.has(text.replace(/\/$/, "")) && !BUILT.test(text),
    );
    expect(missing.map(printMention)).toEqual([]);
  });

  test("relative links and their anchors", () => {
    const links = findMentions(documents, /\]\(([^)\s]+)\)/g).filter(
      ({ text }) => !/^[a-z]+:/.test(text),
    );
    expect(links.length).toBeGreaterThan(20);
    expect(links.filter((link) => !isLinkGood(link)).map(printMention)).toEqual([]);
  });

  test("documents that comments in the code name", () => {
    const sources = listFiles(
      "*.ts",
      "*.cc",
      "*.h",
      "*.js",
      "*.cjs",
      "hack",
      "packages/*/*/bin",
      "packages/cli/bin",
    )
      .filter((path) => existsSync(join(ROOT, path)))
      .map((path) => ({ path, text: readText(path) }));
    const named = findMentions(sources, /\b(docs\/[\w/-]+\.md)\b/g);
    expect(named.filter((path) => !isThere(path)).map(printMention)).toEqual([]);
  });
});

describe("packages", () => {
  const packages = listFiles("packages/*/*/package.json", "packages/cli/package.json").map((path) =>
    dirname(path),
  );

  test.each(packages)("%s has a short README", (folder) => {
    expect(existsSync(join(ROOT, folder, "README.md"))).toBe(true);
    const lines = readText(`${folder}/README.md`).trimEnd().split("\n");
    expect(lines.length).toBeLessThanOrEqual(README_LINES_MAX);
  });

  test("the architecture has a line for each package", () => {
    const text = readText("ARCHITECTURE.md");
    const missing = packages.filter((folder) => !text.includes(`| \`${basename(folder)}\``));
    expect(missing).toEqual([]);
  });
});

test("the index of documents lists each decision", () => {
  const index = readText("docs/README.md");
  const missing = listFiles("docs/adr/*.md").filter(
    (path) => !index.includes(`(${path.replace("docs/", "")})`),
  );
  expect(missing).toEqual([]);
});
