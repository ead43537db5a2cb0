// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { findBlocks } from "./code-blocks.ts";
import { parseShell } from "./shell.ts";

describe("commands of shell text", () => {
  test.each([
    { name: "a comment", text: "a b  # c 'd", want: [["a", "b"]] },
    {
      name: "quotes",
      text: `a 'b c' "d \\" e" f#g h\\ i`,
      want: [["a", "b c", 'd " e', "f#g", "h i"]],
    },
    {
      name: "lists and pipes",
      text: "a; b && c | d || e",
      want: [["a"], ["b"], ["c"], ["d"], ["e"]],
    },
    { name: "assignments and sudo", text: "X=1 y=$z sudo a\nX=1", want: [["a"]] },
    { name: "redirections", text: "a <b >>c 2>&1 d", want: [["a", "d"]] },
    { name: "a loop", text: "for x in a b; do\n  c $x\ndone", want: [["c", "$x"]] },
    {
      name: "a substitution",
      text: 'a "$(b c)"',
      want: [
        ["b", "c"],
        ["a", "$(b c)"],
      ],
    },
    { name: "a here-document", text: "a - <<'EOF'\nb c\nEOF\nd", want: [["a", "-"], ["d"]] },
  ])("$name", ({ text, want }) => {
    expect(parseShell(text).flatMap(({ commands }) => commands)).toEqual(want);
  });

  test("statements have their whole text and the number of their first line", () => {
    const loop = "for x in a; do\n  b\ndone";
    const quoted = "c '\nd' \\\n  e";
    const document = "f <<E\ng\nE";
    const statements = parseShell([loop, "", quoted, document].join("\n"));
    expect(statements.map(({ line, text }) => [line, text])).toEqual([
      [0, loop],
      [4, quoted],
      [7, document],
    ]);
  });

  test.each([
    { name: "an open quote", text: "a 'b" },
    { name: "an open loop", text: "for x in a; do b" },
    { name: "an open here-document", text: "a <<E\nb" },
  ])("rejects $name", ({ text }) => {
    expect(() => parseShell(text)).toThrow(/./);
  });
});

describe("code blocks", () => {
  const page = (...lines: readonly string[]) =>
    findBlocks({ path: "p.md", text: lines.join("\n") }).map(({ kind, heading, line, text }) => [
      kind,
      heading,
      line,
      text,
    ]);

  test.each([
    {
      name: "indented",
      lines: ["# T", "", "    a", "", "      b", "", "c"],
      want: [["shell", "T", 3, "a\n\n  b"]],
    },
    {
      name: "in a list item",
      lines: ["- t", "", "      a", "", "- u"],
      want: [["shell", "", 3, "a"]],
    },
    { name: "fenced", lines: ["## U", "```", "a", "```"], want: [["shell", "U", 3, "a"]] },
    { name: "a change of files", lines: ["```diff", "+a", "```"], want: [["diff", "", 2, "+a"]] },
    { name: "in another language", lines: ["```text", "    a", "```"], want: [] },
    {
      name: "YAML and JSON",
      lines: ["", "    spec:", "      a", "", "t", "", '    {"a": 1}'],
      want: [],
    },
    {
      name: "manifests",
      lines: ["", "    apiVersion: v1", "    kind: A"],
      want: [["manifest", "", 2, "apiVersion: v1\nkind: A"]],
    },
    { name: "a continued paragraph", lines: ["- a", "    b"], want: [] },
  ])("$name", ({ lines, want }) => {
    expect(page(...lines)).toEqual(want);
  });
});
