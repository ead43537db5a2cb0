// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { buildCheckedPodDirectory } from "./layout.ts";

test.each(["0f1e2d3c", "A", "a-1", "9".repeat(128)])("%s is a pod's directory", (uid) => {
  expect(buildCheckedPodDirectory(uid, "/pods")).toBe(`/pods/${uid}`);
});

test.each(["", "-a", "..", "a/b", "/a", "a.b", "a\n", "\na", "9".repeat(129)])(
  "%j is not a valid directory name",
  (uid) => {
    expect(() => buildCheckedPodDirectory(uid, "/pods")).toThrow(
      expect.objectContaining({
        code: "OS_PATH_REFUSED",
        details: expect.objectContaining({ path: uid }) as unknown,
      }),
    );
  },
);
