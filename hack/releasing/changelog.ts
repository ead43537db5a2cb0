// SPDX-License-Identifier: Apache-2.0
// Rules for CHANGELOG.md: a section for each release, and a line for each commit that changes the product's behavior.

export const CHANGELOG = "CHANGELOG.md";
/** Trailer of a commit whose change of the product is not noticeable. */
const NONE = "none";

/** A commit without merges. */
export interface Commit {
  readonly hash: string;
  readonly subject: string;
  /** Paths that the commit adds, changes or removes. */
  readonly paths: readonly string[];
  /** Values of the trailer `Changelog`. */
  readonly changelog: readonly string[];
  /** Abbreviated hashes in the trailer `Changelog-for`: earlier commits to which this commit's line or trailer applies. */
  readonly changelogFor: readonly string[];
}

const NOT_SHIPPED =
  /\.test\.tsx?$|\/(testing|__golden__)\/|\/testing\.ts$|\/(README\.md|tsconfig[^/]*\.json)$/;

/** Whether users run the file: code, scripts and manifests of the packages, CRDs, and content of images, chart and Debian package. */
export function isProduct(path: string): boolean {
  return /^(packages|crds|hack\/(images|chart|deb))\//.test(path) && !NOT_SHIPPED.test(path);
}

function isComplete({ paths, changelog }: Commit): boolean {
  return paths.includes(CHANGELOG) || changelog.includes(NONE);
}

/** Returns a line for each commit that changes the product without a line in the changelog. `commits` are in any order. */
export function findSilentCommits(commits: readonly Commit[]): readonly string[] {
  const repaired = commits.filter(isComplete).flatMap(({ changelogFor }) => changelogFor);
  return commits
    .filter((commit) => commit.paths.some(isProduct) && !isComplete(commit))
    .filter(({ hash }) => !repaired.some((abbreviated) => hash.startsWith(abbreviated)))
    .map(
      ({ hash, subject, paths }) =>
        `commit ${hash.slice(0, 9)} "${subject}" changes ${paths.find(isProduct) ?? ""} without a line in ${CHANGELOG}`,
    );
}

/** `## 0.2.0 - 2026-11-30` */
const HEADING = /^## (\S+)(?: - (\S+))?$/;

export interface Section {
  readonly version: string;
  readonly date: string | undefined;
  readonly text: string;
}

export function parseSections(changelog: string): readonly Section[] {
  return changelog
    .split(/^(?=## )/m)
    .filter((part) => part.startsWith("## "))
    .flatMap((part) => {
      const [heading = "", ...lines] = part.split("\n");
      const [, version, date] = HEADING.exec(heading) ?? [];
      return version === undefined ? [] : [{ version, date, text: lines.join("\n").trim() }];
    });
}

/** Returns what prevents the release of a version; empty if its section is complete. */
export function findSectionProblems(changelog: string, version: string): readonly string[] {
  const found = parseSections(changelog).find((section) => section.version === version);
  if (found === undefined) {
    return [
      `${CHANGELOG} has no section "## ${version} - YYYY-MM-DD"; rename the section Unreleased`,
    ];
  }
  return [
    ...(/^\d{4}-\d{2}-\d{2}$/.test(found.date ?? "")
      ? []
      : [`the section ${version} of ${CHANGELOG} has no date; write "## ${version} - YYYY-MM-DD"`]),
    ...(/^- /m.test(found.text) ? [] : [`the section ${version} of ${CHANGELOG} has no lines`]),
  ];
}
