// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { licencesOf, parsePackages, spdxNameOf } from "./debian.ts";

test("reads packages with version, architecture and homepage", () => {
  const status = [
    "Package: libc6\nStatus: install ok installed\nVersion: 2.36-9\nArchitecture: amd64\n",
    "Package: seabios\nVersion: 1:1.16\nArchitecture: all\nHomepage: https://www.seabios.org/\n",
    "Version: 1\n",
  ].join("\n");
  expect(parsePackages(status)).toEqual([
    { name: "libc6", version: "2.36-9", architecture: "amd64", homepage: undefined },
    {
      name: "seabios",
      version: "1:1.16",
      architecture: "all",
      homepage: "https://www.seabios.org/",
    },
  ]);
});

test.each([
  ["GPL-2+", "GPL-2.0-or-later"],
  ["GPL-3", "GPL-3.0-only"],
  ["LGPL-2.1+", "LGPL-2.1-or-later"],
  ["Expat", "MIT"],
  ["BSD-3-clause", "BSD-3-clause"],
  ["public-domain", "public-domain"],
])("%s is %s as an SPDX expression", (debian, spdx) => {
  expect(spdxNameOf(debian)).toBe(spdx);
});

describe("licenses of a copyright file", () => {
  const FORMAT = "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n";

  test.each([
    ["fields, each once and sorted", `${FORMAT}License: MIT\n\nLicense: GPL-2+\n\nLicense: MIT\n`],
    ["alternatives and lists", `${FORMAT}License: GPL-2+ or Expat\n`],
    ["lists with commas", `${FORMAT}License: Expat, and GPL-2+\n`],
  ])("%s", (_, text) => {
    expect(licencesOf("a", text)).toEqual(["GPL-2.0-or-later", "MIT"]);
  });

  test("finds the common licenses that prose refers to", () => {
    const text = "See /usr/share/common-licenses/LGPL-2.1.\nAnd /usr/share/common-licenses/GPL.\n";
    expect(licencesOf("a", text)).toEqual(["GPL", "LGPL-2.1-only"]);
  });

  test("finds licenses in prose below a machine-readable heading", () => {
    const text = `${FORMAT}QEMU is under /usr/share/common-licenses/GPL-2.\n`;
    expect(licencesOf("a", text)).toEqual(["GPL-2.0-only"]);
  });

  test("names the location of a license text without a name", () => {
    const text = "License: do what you like\n";
    expect(licencesOf("a", text)).toEqual(["in /usr/share/doc/a/copyright"]);
  });
});
