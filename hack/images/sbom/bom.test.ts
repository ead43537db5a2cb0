// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { makeBom, type Materials } from "./bom.ts";

const MATERIALS: Materials = {
  reference: "localhost/patchbay/a:dev",
  digest: "sha256:00",
  debian: [
    {
      name: "libacl1",
      version: "2.3.1-3",
      architecture: "amd64",
      homepage: "https://savannah.nongnu.org/projects/acl/",
      licences: ["GPL-2.0-or-later", "LGPL-2+-like"],
    },
  ],
  npm: [
    { name: "@a/b", version: "1.2.3", license: "(MIT OR Apache-2.0)" },
    { name: "@a/b", version: "1.2.3", license: "(MIT OR Apache-2.0)" },
    { name: "c", version: "2.0.0", license: "ISC" },
    {},
  ],
};

// The library's types do not cover the rendered text.
const components = (
  JSON.parse(makeBom(MATERIALS)) as {
    readonly components: readonly { readonly purl: string; readonly licenses: unknown }[];
  }
).components;

test("lists each package once, with its address and licenses", () => {
  expect(Object.fromEntries(components.map(({ purl, licenses }) => [purl, licenses]))).toEqual({
    "pkg:deb/debian/libacl1@2.3.1-3?arch=amd64": [
      { license: { name: "LGPL-2+-like" } },
      { license: { id: "GPL-2.0-or-later" } },
    ],
    "pkg:npm/%40a/b@1.2.3": [{ expression: "(MIT OR Apache-2.0)" }],
    "pkg:npm/c@2.0.0": [{ license: { id: "ISC" } }],
  });
});

test("the same materials produce the same text", () => {
  const backwards = { ...MATERIALS, npm: MATERIALS.npm.toReversed() };
  expect(makeBom(backwards)).toBe(makeBom(MATERIALS));
});
