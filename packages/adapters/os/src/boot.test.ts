// SPDX-License-Identifier: Apache-2.0
import { createFakeFiles } from "@patchbay/os/testing";
import { expect, test } from "vitest";
import { readBootId } from "./boot.ts";
import { createFiles } from "./files/files.ts";

test("a boot has a name, the same each time", async () => {
  const name = await readBootId(createFiles());
  expect(name).toMatch(/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/);
  expect(await readBootId(createFiles())).toBe(name);
});

test("a machine that does not tell its boot is not taken for one that does", async () => {
  await expect(readBootId(createFakeFiles())).rejects.toMatchObject({ code: "OS_FILE_FAILED" });
});
