// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { describeFailure } from "./run-on-source.ts";

test.each([
  {
    name: "a full disk that prevents a write in tar",
    stderr:
      "tar: /data/layer.tar: Cannot write: No space left on device\ntar: Error is not recoverable: exiting now\n",
    want: /^tar: \/data\/layer\.tar: Cannot write: No space left on device; the file system is full: free space/,
  },
  {
    name: "a full disk that truncates a block in tar",
    stderr:
      "tar: /data/layer.tar: Wrote only 4096 of 10240 bytes\ntar: Error is not recoverable: exiting now\n",
    want: /^tar: \/data\/layer\.tar: Wrote only 4096 of 10240 bytes; the file system is full/,
  },
  {
    name: "unreadable files",
    stderr:
      "tar: ./a: Cannot open: Permission denied\ntar: ./b: Cannot open: Permission denied\ntar: Exiting with failure status due to previous errors\n",
    want: /^tar: \.\/a: Cannot open: Permission denied, and 1 more; it cannot be read: make it readable/,
  },
  {
    name: "a file that is written to",
    stderr: "tar: ./disk.img: file changed as we read it\n",
    want: /^tar: \.\/disk\.img: file changed as we read it; it changed while it was read/,
  },
  { name: "another fault", stderr: "qemu-img: bad magic\n", want: /^qemu-img: bad magic$/ },
  { name: "nothing", stderr: "\n", want: /^no reason was given$/ },
])("reports $name with the next step", ({ stderr, want }) => {
  expect(describeFailure(stderr)).toMatch(want);
});
