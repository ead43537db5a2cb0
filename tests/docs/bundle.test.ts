// SPDX-License-Identifier: Apache-2.0
// doctor.md lists what an archive for a bug report contains, and what is removed from it.
import { expect, test } from "vitest";
import {
  BUNDLE_LIMITS,
  MACHINE_FILES,
  NETWORK_COMMANDS,
} from "../../packages/cli/src/doctor/bundle/bundle.ts";
import {
  BUNDLED_KINDS,
  REMOVED_MEMBERS,
  RETAINED_ANNOTATIONS,
} from "../../packages/cli/src/doctor/bundle/redact.ts";
import { readText } from "./documents.ts";

const SECTION =
  readText("docs/doctor.md").split("## An archive for a bug report")[1]?.split("\n## ")[0] ?? "";
const SELECTIONS = {
  all: "all",
  labeled: "with Patchbay's label",
  services: "in the namespace `patchbay`",
  namespace: "`patchbay`",
};

/** The rows of the table whose first column has this title. */
function readRows(title: string): readonly (readonly string[])[] {
  const lines = SECTION.split("\n").map((line) => line.split("|").map((cell) => cell.trim()));
  const start = lines.findIndex(([, first]) => first === title);
  const rows = lines.slice(start + 2);
  return rows
    .slice(
      0,
      rows.findIndex(({ length }) => length < 3),
    )
    .map((cells) => cells.slice(1, -1));
}

test("lists each kind with its members, and no other", () => {
  const rows = BUNDLED_KINDS.map(({ type, selection, members }) => [
    type.kind,
    SELECTIONS[selection],
    members.map((member) => `\`${member}\``).join(", "),
  ]);
  expect(readRows("kind")).toEqual(rows);
});

test("lists each removed member, and no other", () => {
  const rows = Object.entries(REMOVED_MEMBERS).map(([name, why]) => [`\`${name}\``, why]);
  expect(readRows("member")).toEqual(rows);
});

test("names the retained annotations, the machine's files and programs, and the limits", () => {
  const sources = MACHINE_FILES.map(({ source, suffix }) => (source === "" ? suffix : source));
  const commands = Object.values(NETWORK_COMMANDS).map((argv) => argv.join(" "));
  for (const text of [...RETAINED_ANNOTATIONS, ...sources, ...commands])
    expect(SECTION).toContain(`\`${text}\``);
  for (const bytes of Object.values(BUNDLE_LIMITS))
    expect(SECTION.replaceAll("\n", " ")).toContain(`${String(bytes / 1024 / 1024)} MiB`);
});
