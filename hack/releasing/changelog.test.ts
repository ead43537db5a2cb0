// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { findSectionProblems, findSilentCommits, isProduct, type Commit } from "./changelog.ts";

const CODE = "packages/cli/src/main.ts";

function commit(hash: string, paths: readonly string[], more: Partial<Commit> = {}): Commit {
  return { hash, subject: "cli: change", paths, changelog: [], changelogFor: [], ...more };
}

describe("files of the product", () => {
  test.each([
    { path: CODE, want: true },
    { path: "packages/cli/bin/patchbay", want: true },
    { path: "packages/common/manifests/base/virt-api.yaml", want: true },
    { path: "crds/kubevirt.io_virtualmachines.yaml", want: true },
    { path: "hack/images/virt-launcher/packages", want: true },
    { path: "hack/deb/postinst", want: true },
    { path: "hack/chart/templates.ts", want: true },
    { path: "packages/cli/src/main.test.ts", want: false },
    { path: "packages/cli/src/testing/run-patchbay.ts", want: false },
    { path: "packages/common/base/src/testing.ts", want: false },
    { path: "packages/cli/README.md", want: false },
    { path: "packages/cli/tsconfig.json", want: false },
    { path: "docs/install.md", want: false },
    { path: "hack/test.ts", want: false },
    { path: "tests/contract/images/archive.ts", want: false },
  ])("$path: $want", ({ path, want }) => {
    expect(isProduct(path)).toBe(want);
  });
});

describe("commits without a line", () => {
  const WANT = `commit aaaaaaaaa "cli: change" changes ${CODE} without a line in CHANGELOG.md`;
  const silent = commit("aaaaaaaaaaaa", ["docs/README.md", CODE]);
  test.each([
    { name: "no commits", given: [], want: [] },
    { name: "a change of the product alone", given: [silent], want: [WANT] },
    { name: "with a line", given: [commit("aaaa", [CODE, "CHANGELOG.md"])], want: [] },
    {
      name: "with the trailer",
      given: [commit("aaaa", [CODE], { changelog: ["none"] })],
      want: [],
    },
    {
      name: "with another value of the trailer",
      given: [{ ...silent, changelog: ["later"] }],
      want: [WANT],
    },
    { name: "a change of tests and docs", given: [commit("aaaa", ["docs/README.md"])], want: [] },
    {
      name: "a later commit adds the line",
      given: [silent, commit("bbbb", ["CHANGELOG.md"], { changelogFor: ["aaaaaaa"] })],
      want: [],
    },
    {
      name: "a later commit adds the trailer",
      given: [silent, commit("bbbb", [], { changelog: ["none"], changelogFor: ["aaaaaaa"] })],
      want: [],
    },
    {
      name: "a later commit names it without a line or trailer",
      given: [silent, commit("bbbb", ["docs/README.md"], { changelogFor: ["aaaaaaa"] })],
      want: [WANT],
    },
    {
      name: "a later line is for another commit",
      given: [silent, commit("bbbb", ["CHANGELOG.md"], { changelogFor: ["cccc"] })],
      want: [WANT],
    },
  ])("$name", ({ given, want }) => {
    expect(findSilentCommits(given)).toEqual(want);
  });
});

describe("the section of a release", () => {
  const changelog = (heading: string, line = "- A line."): string =>
    `# Changelog\n\n## Unreleased\n\n- Other.\n\n${heading}\n\n### Added\n\n${line}\n\n## 0.1.0 - 2026-01-01\n\n- First.\n`;
  test.each([
    { name: "complete", given: changelog("## 0.2.0 - 2026-11-30"), want: [] },
    {
      name: "missing",
      given: changelog("## 0.3.0 - 2026-11-30"),
      want: ['CHANGELOG.md has no section "## 0.2.0 - YYYY-MM-DD"; rename the section Unreleased'],
    },
    {
      name: "without date and lines",
      given: changelog("## 0.2.0", ""),
      want: [
        'the section 0.2.0 of CHANGELOG.md has no date; write "## 0.2.0 - YYYY-MM-DD"',
        "the section 0.2.0 of CHANGELOG.md has no lines",
      ],
    },
  ])("$name", ({ given, want }) => {
    expect(findSectionProblems(given, "0.2.0")).toEqual(want);
  });
});
