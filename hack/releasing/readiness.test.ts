// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { listProblems, type Facts } from "./readiness.ts";

const READY: Facts = {
  wanted: "0.2.0",
  declared: "0.2.0",
  constant: 'export const VERSION = "0.2.0";\n',
  changelog: "# Changelog\n\n## 0.2.0 - 2026-11-30\n\n- A line.\n",
  changes: [],
  head: "aaaaaaaaaaaa",
  tagged: undefined,
  isRoot: true,
  missingPrograms: [],
  silentCommits: [],
  canTag: true,
  keyProblem: undefined,
};

test.each<{ name: string; given: Partial<Facts>; want: readonly string[] }>([
  { name: "a complete release", given: {}, want: [] },
  { name: "the same release again", given: { tagged: READY.head }, want: [] },
  {
    name: "another tagged commit",
    given: { tagged: "bbbbbbbbbbbb" },
    want: ["tag v0.2.0 is commit bbbbbbbbb, not this one; choose the next version"],
  },
  {
    name: "a prefix",
    given: { wanted: "v0.2.0", changelog: "## v0.2.0 - 2026-11-30\n- A line.\n" },
    want: ['"v0.2.0" is no version; name it as in 0.2.0 or 0.2.0-rc.1, without a leading v'],
  },
  {
    name: "another declared version",
    given: { declared: "0.1.0" },
    want: ["package.json has version 0.1.0, not 0.2.0; change it, run npm run gen, and commit"],
  },
  {
    name: "programs with the former version",
    given: { constant: 'export const VERSION = "0.1.0";\n' },
    want: ["the programs do not print version 0.2.0; run npm run gen, and commit"],
  },
  {
    name: "uncommitted changes",
    given: { changes: [" M a", "?? b", " M c", " M d", " M e", " M f"] },
    want: ["the tree has uncommitted changes: a, b, c, d, e, and 1 more; commit or remove them"],
  },
])("$name", ({ given, want }) => {
  expect(listProblems({ ...READY, ...given })).toEqual(want);
});

test("reports all problems at once", () => {
  const problems = listProblems({
    wanted: "0.3.0",
    declared: "0.2.0",
    constant: READY.constant,
    changelog: READY.changelog,
    changes: ["?? a"],
    head: READY.head,
    tagged: "bbbb",
    isRoot: false,
    missingPrograms: ["umoci", "qemu-aarch64-static"],
    silentCommits: ["commit cccc changes code without a line in CHANGELOG.md"],
    canTag: false,
    keyProblem: "key.pem is no private key",
  });
  expect(problems).toHaveLength(9);
  expect(problems).toContain(
    "programs are missing: umoci, qemu-aarch64-static; run hack/install --release",
  );
});
