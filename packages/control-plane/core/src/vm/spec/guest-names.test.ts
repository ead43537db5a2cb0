// SPDX-License-Identifier: Apache-2.0
// What is a guest called where names are shorter than a VM's may be, and where is a file of a node?
import { aVmi } from "@patchbay/support";
import { expect, test } from "vitest";
import { findHostPath } from "./disk-files.ts";
import { buildHostname, toLabelValue } from "./guest-names.ts";

test.each([
  { name: "web", hostname: undefined, want: "web" },
  { name: "web.example", hostname: "", want: "web" },
  { name: "web", hostname: "web-1.example", want: "web-1" },
  { name: `${"a".repeat(62)}-b`, hostname: undefined, want: "a".repeat(62) },
])("a VM $name with hostname $hostname has the hostname $want", ({ name, hostname, want }) => {
  const vmi = aVmi();
  const spec = { ...vmi.spec, ...(hostname === undefined ? {} : { hostname }) };
  expect(buildHostname({ ...vmi, metadata: { ...vmi.metadata, name }, spec })).toBe(want);
});

test("uses the name as label, or a unique shortened form", () => {
  const long = "a".repeat(253);
  expect(toLabelValue("a".repeat(63))).toBe("a".repeat(63));
  expect(toLabelValue(long)).toMatch(/^a{54}-[0-9a-f]{8}$/);
  expect(toLabelValue(`${"a".repeat(53)}.${"b".repeat(20)}`)).toMatch(/^a{53}-[0-9a-f]{8}$/);
  expect(toLabelValue(`${long}b`)).not.toBe(toLabelValue(`${long}c`));
});

test.each([
  { path: "/data/a.img", want: { directory: "/data", file: "a.img" } },
  { path: "/a.img", want: { directory: "/", file: "a.img" } },
  { path: "/data/", want: undefined },
  { path: "data/a.img", want: undefined },
  { path: "/data//a.img", want: undefined },
  { path: "/data/../a.img", want: undefined },
  { path: "/data/.", want: undefined },
  { path: "", want: undefined },
])("splits host path $path into $want", ({ path, want }) => {
  expect(findHostPath(path)).toEqual(want);
});
