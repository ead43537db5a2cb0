// SPDX-License-Identifier: Apache-2.0
// Parses dpkg's list of installed packages and their copyright files.

export interface DebianPackage {
  readonly name: string;
  readonly version: string;
  readonly architecture: string;
  readonly homepage: string | undefined;
}

function fieldsOf(stanza: string): ReadonlyMap<string, string> {
  const lines = stanza.split("\n").map((line) => /^([\w-]+):(.*)$/.exec(line));
  return new Map(
    lines.flatMap((match) => (match ? [[match[1] ?? "", (match[2] ?? "").trim()]] : [])),
  );
}

/** Parses text in the format of dpkg's status file. Preserves the order. */
export function parsePackages(status: string): readonly DebianPackage[] {
  return status
    .split(/\n\n+/)
    .map(fieldsOf)
    .flatMap((fields) => {
      const name = fields.get("Package");
      const version = fields.get("Version");
      if (name === undefined || version === undefined) return [];
      const architecture = fields.get("Architecture") ?? "all";
      return [{ name, version, architecture, homepage: fields.get("Homepage") }];
    });
}

/** Debian's short names for license versions "or later", and names that differ in SPDX. Source: copyright-format 1.0, 7.2. */
const GNU = /^(GPL|LGPL|AGPL|GFDL)-([\d.]+)(\+)?$/;
const OTHER_NAMES: ReadonlyMap<string, string> = new Map([
  ["expat", "MIT"],
  ["apache-2", "Apache-2.0"],
  ["artistic", "Artistic-1.0"],
  ["mpl-1.1", "MPL-1.1"],
  ["bsl-1.0", "BSL-1.0"],
]);

/** Converts a license name of Debian to its SPDX name. Returns other names unchanged. */
export function spdxNameOf(name: string): string {
  const gnu = GNU.exec(name);
  if (gnu === null) return OTHER_NAMES.get(name.toLowerCase()) ?? name;
  const [, family = "", number = "", later] = gnu;
  const version = number.includes(".") ? number : `${number}.0`;
  return `${family}-${version}-${later === undefined ? "only" : "or-later"}`;
}

const FORMAT = /^Format(-Specification)?:.*(copyright-format|dep5)/im;
const FIELD = /^License:[ \t]*(\S.*)$/gm;
const COMMON = /\/usr\/share\/common-licenses\/([A-Za-z]+(?:-[\d.]*\d)?)/g;

/** Finds license names in the machine-readable fields, otherwise in the prose that refers to Debian's common licenses. */
function namesIn(copyright: string): readonly string[] {
  const find = (pattern: RegExp): readonly string[] =>
    [...copyright.matchAll(pattern)].map((match) => match[1] ?? "");
  const fields = FORMAT.test(copyright) ? find(FIELD) : [];
  return fields.length > 0
    ? fields.flatMap((name) => name.split(/,| (?:and|or) /)).map((name) => name.trim())
    : find(COMMON);
}

/**
 * Returns the licenses in a package's copyright file, sorted and unique. Returns the file's path if it names no license.
 * The file itself states which license applies to which files.
 */
export function licencesOf(name: string, copyright: string): readonly string[] {
  const names = namesIn(copyright).filter((found) => found !== "");
  if (names.length === 0) return [`in /usr/share/doc/${name}/copyright`];
  return [...new Set(names.map(spdxNameOf))].sort();
}
