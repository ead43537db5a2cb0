// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { negotiateVersion, parseVersions } from "./version.ts";

test.each([
  {
    name: "the versions in its list",
    answer: { cniVersion: "1.0.0", supportedVersions: ["0.4.0", "1.0.0"] },
    want: ["0.4.0", "1.0.0"],
  },
  {
    name: "only the list's strings",
    answer: { cniVersion: "1.0.0", supportedVersions: ["0.4.0", 1] },
    want: ["0.4.0"],
  },
  {
    name: "the two oldest versions for an answer without a list",
    answer: { cniVersion: "0.2.0" },
    want: ["0.1.0", "0.2.0"],
  },
  { name: "unknown without a list", answer: { cniVersion: "1.0.0" }, want: undefined },
  {
    name: "unknown if the list is empty",
    answer: { cniVersion: "1.0.0", supportedVersions: [] },
    want: undefined,
  },
  {
    name: "unknown if the answer's version is empty",
    answer: { cniVersion: "", supportedVersions: ["1.0.0"] },
    want: undefined,
  },
  { name: "unknown if the answer is a list", answer: ["1.0.0"], want: undefined },
])("versions that a plugin supports: $name", ({ answer, want }) => {
  expect(parseVersions(answer)).toEqual(want);
});

test.each([
  {
    name: "supported by all plugins",
    supported: [
      ["0.4.0", "1.0.0"],
      ["0.3.1", "0.4.0"],
    ],
    want: "0.4.0",
  },
  {
    name: "supported by all plugins with known versions",
    supported: [undefined, ["0.4.0"]],
    want: "0.4.0",
  },
  { name: "not above the configuration's version", supported: [["0.4.0", "1.1.0"]], want: "0.4.0" },
  {
    name: "of the configuration if the plugins have no common version",
    supported: [["0.4.0"], ["0.3.1"]],
    want: "1.0.0",
  },
])("the negotiated version is the newest $name", ({ supported, want }) => {
  expect(negotiateVersion("1.0.0", supported)).toBe(want);
});
