// SPDX-License-Identifier: Apache-2.0
import { AppError } from "@patchbay/base";
import { expect, test } from "vitest";
import { errnoOf, isMissing, toFileError } from "./file-errors.ts";

const withCode = (code: unknown): Error => Object.assign(new Error("failed"), { code });

test.each([
  { name: "a system call", error: withCode("ENOENT"), errno: "ENOENT", missing: true },
  { name: "a path through a file", error: withCode("ENOTDIR"), errno: "ENOTDIR", missing: true },
  { name: "missing permissions", error: withCode("EACCES"), errno: "EACCES", missing: false },
  { name: "a numeric code", error: withCode(2), errno: undefined, missing: false },
  { name: "no code at all", error: new Error("failed"), errno: undefined, missing: false },
  {
    name: "an object that is not an Error",
    error: { code: "ENOENT" },
    errno: undefined,
    missing: false,
  },
  { name: "text", error: "ENOENT", errno: undefined, missing: false },
  { name: "nothing", error: undefined, errno: undefined, missing: false },
])("an error of $name has errno $errno", ({ error, errno, missing }) => {
  expect(errnoOf(error)).toBe(errno);
  expect(isMissing(error)).toBe(missing);
});

test("a failed call retains its cause, and an AppError stays unchanged", () => {
  const cause = withCode("EACCES");
  expect(toFileError(cause, "open", "/a")).toMatchObject({
    code: "OS_FILE_FAILED",
    details: { call: "open", path: "/a", reason: "failed", errno: "EACCES" },
    cause,
  });
  const own = new AppError("OS_PROGRAM_MISSING", { program: "x" });
  expect(toFileError(own, "open", "/a")).toBe(own);
});
