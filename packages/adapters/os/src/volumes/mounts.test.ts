// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { mountsAt } from "./mounts.ts";

test("mount points are found with blanks in their names, and none beside the path", () => {
  const lines = ["/p/a", "/p/a\\040b", "/p/a/x", "/q"].map(
    (point) => `1 2 0:1 / ${point} rw - t s o`,
  );
  const text = `${lines.join("\n")}\n`;
  expect(mountsAt(text, "/p/a")).toEqual(["/p/a", "/p/a/x"]);
  expect(mountsAt(text, "/p/a b")).toEqual(["/p/a b"]);
});
