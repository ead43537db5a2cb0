// SPDX-License-Identifier: Apache-2.0
// Decides whether a version can be released. Reports every problem at once.
import { findSectionProblems } from "./changelog.ts";

export interface Facts {
  readonly wanted: string;
  /** `version` in the root's package.json. */
  readonly declared: string;
  /** Text of the file with the version that the programs print. */
  readonly constant: string;
  readonly changelog: string;
  /** Lines of `git status --porcelain`. */
  readonly changes: readonly string[];
  readonly head: string;
  /** Commit of the version's tag; unset if the tag does not exist. */
  readonly tagged: string | undefined;
  readonly isRoot: boolean;
  /** Programs that the release needs and the machine lacks. */
  readonly missingPrograms: readonly string[];
  /** Commits without a line in the changelog, from `findSilentCommits`. */
  readonly silentCommits: readonly string[];
  /** Whether git knows the author of the tag; true if no tag is requested. */
  readonly canTag: boolean;
  /** Why the private key cannot sign; unset if it can, or if none was given. */
  readonly keyProblem: string | undefined;
}

/** Source: Semantic Versioning 2.0.0, items 2 and 9. Builds are excluded: an image's tag cannot contain `+`. */
const VERSION = /^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$/;
const SHOWN = 5;

function listShort(names: readonly string[]): string {
  const more = names.length > SHOWN ? `, and ${String(names.length - SHOWN)} more` : "";
  return `${names.slice(0, SHOWN).join(", ")}${more}`;
}

function findVersionProblems({ wanted, declared, constant }: Facts): readonly string[] {
  if (!VERSION.test(wanted)) {
    return [`"${wanted}" is no version; name it as in 0.2.0 or 0.2.0-rc.1, without a leading v`];
  }
  if (declared !== wanted) {
    return [
      `package.json has version ${declared}, not ${wanted}; change it, run npm run gen, and commit`,
    ];
  }
  return constant.includes(`"${wanted}"`)
    ? []
    : [`the programs do not print version ${wanted}; run npm run gen, and commit`];
}

function findTreeProblems({ wanted, changes, head, tagged }: Facts): readonly string[] {
  return [
    ...(changes.length === 0
      ? []
      : [
          `the tree has uncommitted changes: ${listShort(changes.map((line) => line.slice(3)))}; commit or remove them`,
        ]),
    ...(tagged === undefined || tagged === head
      ? []
      : [`tag v${wanted} is commit ${tagged.slice(0, 9)}, not this one; choose the next version`]),
  ];
}

export function listProblems(facts: Facts): readonly string[] {
  const { wanted, changelog, isRoot, missingPrograms, silentCommits, canTag, keyProblem } = facts;
  return [
    ...findVersionProblems(facts),
    ...findSectionProblems(changelog, wanted),
    ...silentCommits,
    ...findTreeProblems(facts),
    ...(isRoot ? [] : ["images are made by root; run this command as root"]),
    ...(missingPrograms.length === 0
      ? []
      : [`programs are missing: ${missingPrograms.join(", ")}; run hack/install --release`]),
    ...(canTag ? [] : ["git does not know the author of the tag; set user.name and user.email"]),
    ...(keyProblem === undefined ? [] : [keyProblem]),
  ];
}
