// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { sourceOf } from "./source.ts";

test.each([
  { source: "guest", kind: "directory", want: { kind: "directory", path: "/w/guest" } },
  { source: "guest.tar", kind: "regular file", want: { kind: "archive", path: "/w/guest.tar" } },
  {
    source: "guest",
    kind: undefined,
    want: { kind: "registry", reference: "docker.io/library/guest:latest" },
  },
  {
    source: "localhost:5000/a/b:1",
    kind: undefined,
    want: { kind: "registry", reference: "localhost:5000/a/b:1" },
  },
])("$source where there is $kind comes from a $want.kind", ({ source, kind, want }) => {
  expect(sourceOf(source, `/w/${source}`, kind)).toEqual(want);
});

test.each([
  { source: "./guest", kind: undefined, reason: "there is no such file" },
  { source: "/guest", kind: undefined, reason: "there is no such file" },
  { source: "..", kind: undefined, reason: "there is no such file" },
  { source: "fifo", kind: "fifo", reason: "it is a fifo" },
  { source: "Guest.tar", kind: undefined, reason: "no name of an image" },
])("$source where there is $kind is refused: $reason", ({ source, kind, reason }) => {
  expect(() => sourceOf(source, source, kind)).toThrow(reason);
});
