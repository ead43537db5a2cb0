// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { sourceOf } from "./source.ts";

test.each([
  { source: "guest", kind: "directory", want: { kind: "directory", path: "/w/guest" } },
  { source: "guest.tar", kind: "regular file", want: { kind: "archive", path: "/w/guest.tar" } },
  { source: "guest.qcow2", kind: "regular file", want: { kind: "disk", path: "/w/guest.qcow2" } },
  { source: "guest.IMG", kind: "regular file", want: { kind: "disk", path: "/w/guest.IMG" } },
  { source: "guest.vmdk", kind: "regular file", want: { kind: "disk", path: "/w/guest.vmdk" } },
  { source: "a.img", kind: "directory", want: { kind: "directory", path: "/w/a.img" } },
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
  { source: "guest.qcow2", kind: undefined, reason: "there is no such file" },
  { source: "a.raw.xz", kind: undefined, reason: "there is no such file" },
  { source: "..", kind: undefined, reason: "there is no such file" },
  { source: "a.qcow2.xz", kind: "regular file", reason: "unpack it with: unxz a.qcow2.xz" },
  { source: "fifo", kind: "fifo", reason: "it is a fifo" },
  { source: "Guest.tar", kind: undefined, reason: "not an image name" },
])("$source where there is $kind is refused: $reason", ({ source, kind, reason }) => {
  expect(() => sourceOf(source, source, kind)).toThrow(reason);
});
