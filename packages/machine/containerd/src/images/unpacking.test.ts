// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { bytesOfLayer, imageOfLayer, unpackingKeys } from "./unpacking.ts";

const KEY = "extract-209846897-6vD6 sha256:2d71";

test("layers that are being unpacked are told from what containers have", () => {
  const listing = `KEY            PARENT KIND
${KEY}        Active
0f35c1         sha256:77 Active
sha256:77      Committed
`;
  expect(unpackingKeys(listing)).toEqual([KEY]);
});

test.each<{ name: string; labels: unknown; want: string | undefined }>([
  {
    name: "that CRI unpacks",
    labels: { "containerd.io/snapshot/cri.image-ref": "reg.example/a:1" },
    want: "reg.example/a:1",
  },
  { name: "that somebody else unpacks", labels: { other: "x" }, want: undefined },
  { name: "without labels", labels: null, want: undefined },
])("the image of a layer $name", ({ labels, want }) => {
  expect(imageOfLayer(JSON.stringify({ Name: KEY, Labels: labels }))).toBe(want);
});

test("bytes are read beside a key that has a space in it", () => {
  expect(bytesOfLayer(`KEY   SIZE      INODES\n${KEY} 294981632 2      \n`)).toBe(294981632);
  expect(bytesOfLayer("KEY SIZE INODES\n")).toBe(0);
});
