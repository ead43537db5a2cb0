// SPDX-License-Identifier: Apache-2.0
// Renders README.md's list of unsupported fields from the table that rejects them.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { listVmFields } from "@patchbay/api/validate";
import { isBelow, nameOf } from "./fields.ts";

const BEGIN = "<!-- made by npm run gen from the fields that are refused -->\n\n";
const END = "\n<!-- end of what is made -->\n";

/** Keyed by field prefix; the first match applies. */
const AREAS: readonly (readonly [string, RegExp])[] = [
  ["interfaces and networks", /^(networks|domain\.devices\.(interfaces|autoattachPodInterface))/],
  ["disks and volumes", /^(volumes|domain\.devices\.(disks|filesystems))/],
  ["processors and memory", /^domain\.(cpu|memory)/],
  ["other devices", /^domain\.devices/],
  ["everything else", /^/],
];

/** Removes the common prefixes of a path, which all other fields also have. */
function shortNameOf(path: string): string {
  return path.replaceAll("[]", "").replace(/^(domain\.)?(devices\.)?/, "");
}

export function listNotBuilt(): string {
  const refused = listVmFields().filter(({ level }) => level === "unbuilt");
  const names = refused
    .filter((field) => !refused.some((other) => isBelow(field, other)))
    .map(({ path }) => nameOf(path));
  const areaOf = (name: string): string | undefined =>
    AREAS.find(([, begins]) => begins.test(name))?.[0];
  const lines = AREAS.map(([area]) => {
    const ofArea = names.filter((name) => areaOf(name) === area);
    return `- ${area}: ${ofArea.map((name) => `\`${shortNameOf(name)}\``).join(", ")}\n`;
  });
  return lines.join("");
}

/** Returns README.md with the rendered list. */
export function renderReadme(root: string): ReadonlyMap<string, string> {
  const text = readFileSync(join(root, "README.md"), "utf8");
  const [before = "", rest = ""] = text.split(BEGIN);
  const [, after] = rest.split(END);
  if (after === undefined) throw new Error(`README.md has no place between ${BEGIN} and ${END}`);
  return new Map([["README.md", [before, BEGIN, listNotBuilt(), END, after].join("")]]);
}
