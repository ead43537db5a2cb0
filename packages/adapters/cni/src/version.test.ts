// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { negotiateVersion, parseVersions } from "./version.ts";

test.each([
  {
    name: "those of its list",
    answer: { cniVersion: "1.0.0", supportedVersions: ["0.4.0", "1.0.0"] },
    want: ["0.4.0", "1.0.0"],
  },
  {
    name: "what of its list is text",
    answer: { cniVersion: "1.0.0", supportedVersions: ["0.4.0", 1] },
    want: ["0.4.0"],
  },
  {
    name: "the two oldest without a list",
    answer: { cniVersion: "0.2.0" },
    want: ["0.1.0", "0.2.0"],
  },
  { name: "nothing known", answer: { cniVersion: "1.0.0" }, want: undefined },
  {
    name: "nothing known where the list is empty",
    answer: { cniVersion: "1.0.0", supportedVersions: [] },
    want: undefined,
  },
  {
    name: "nothing known where the version of the answer is empty",
    answer: { cniVersion: "", supportedVersions: ["1.0.0"] },
    want: undefined,
  },
  { name: "nothing known of an answer that is a list", answer: ["1.0.0"], want: undefined },
])("versions that a plugin supports: $name", ({ answer, want }) => {
  expect(parseVersions(answer)).toEqual(want);
});

test.each([
  {
    name: "that all speak",
    supported: [
      ["0.4.0", "1.0.0"],
      ["0.3.1", "0.4.0"],
    ],
    want: "0.4.0",
  },
  { name: "that those speak that say so", supported: [undefined, ["0.4.0"]], want: "0.4.0" },
  { name: "that is not above the configuration's", supported: [["0.4.0", "1.1.0"]], want: "0.4.0" },
  {
    name: "of the configuration when they have none in common",
    supported: [["0.4.0"], ["0.3.1"]],
    want: "1.0.0",
  },
])("the negotiated version is the newest $name", ({ supported, want }) => {
  expect(negotiateVersion("1.0.0", supported)).toBe(want);
});
