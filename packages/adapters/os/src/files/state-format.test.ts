// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { createFakeFiles } from "../testing/fakes/files.ts";
import { claimStateFormat } from "./state-format.ts";

const PATH = "/state/format.json";

test.each([
  { name: "version 0.1, which recorded none", recorded: undefined, supported: 1, want: undefined },
  { name: "an older version", recorded: undefined, supported: 2, want: '{"format":2}\n' },
  { name: "this version", recorded: '{"format":2}\n', supported: 2, want: '{"format":2}\n' },
])("opens the directory of $name", async ({ recorded, supported, want }) => {
  const files = createFakeFiles();
  if (recorded !== undefined) await files.writeAtomic(PATH, recorded);
  await claimStateFormat(files, "/state", supported);
  expect(await files.readText(PATH)).toBe(want);
});

test.each([
  { recorded: '{"format":3}', found: "3" },
  { recorded: "{}", found: "undefined" },
  { recorded: "text", found: "text" },
])("refuses a directory with $recorded, and changes nothing", async ({ recorded, found }) => {
  const files = createFakeFiles();
  await files.writeAtomic(PATH, recorded);
  await expect(claimStateFormat(files, "/state", 2)).rejects.toMatchObject({
    code: "FORMAT_TOO_NEW",
    details: { path: "/state", found, supported: 2 },
  });
  expect(await files.readText(PATH)).toBe(recorded);
});
