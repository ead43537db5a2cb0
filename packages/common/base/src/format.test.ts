// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { checkFormat, FIRST_FORMAT, isSupportedFormat, printFormat } from "./format.ts";

test.each([FIRST_FORMAT, 2])("accepts format %i if format 2 is supported", (found) => {
  expect(() => {
    checkFormat("/state", found, 2);
  }).not.toThrow();
});

test.each([{ found: 3 }, { found: "2" }, { found: undefined }, { found: Number.NaN }])(
  "rejects format $found, and names both formats and the next step",
  ({ found }) => {
    expect(() => {
      checkFormat("/state", found, 2);
    }).toThrow(
      expect.objectContaining({
        code: "FORMAT_TOO_NEW",
        message: `/state has format ${String(found)}, but this version of Patchbay supports formats up to 2; nothing was changed: run the version that wrote it, or a newer one`,
      }),
    );
  },
);

test("a file's own format is supported up to its version", () => {
  const supported = { name: "patchbay-it", version: 2 };
  expect(printFormat(supported)).toBe("patchbay-it/2");
  expect(isSupportedFormat("patchbay-it/1", "/file", supported)).toBe(true);
  expect(isSupportedFormat("patchbay-other/1", "/file", supported)).toBe(false);
  expect(isSupportedFormat("", "/file", supported)).toBe(false);
  expect(() => isSupportedFormat("patchbay-it/3", "/file", supported)).toThrow(
    expect.objectContaining({ code: "FORMAT_TOO_NEW" }),
  );
});
