// SPDX-License-Identifier: Apache-2.0
// Which file of the node defines a network, and what becomes of those that define none?
import { AppError } from "@patchbay/base";
import { createFakeFiles } from "@patchbay/os/testing";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { beforeEach, describe, expect, test } from "vitest";
import { createDefinitionFiles } from "./definition-files.ts";

const DIRECTORY = "/definitions";
const BLUE = '{"name":"blue","type":"bridge"}';
const GREEN = '{"name":"green","plugins":[{"type":"macvlan"}]}';

const files = createFakeFiles();
let logger = createFakeLogger();
let definitions = createDefinitionFiles({ files, log: logger }, DIRECTORY);

beforeEach(async () => {
  await files.remove(DIRECTORY);
  logger = createFakeLogger();
  definitions = createDefinitionFiles({ files, log: logger }, DIRECTORY);
});

async function put(texts: Readonly<Record<string, string>>): Promise<void> {
  for (const [name, text] of Object.entries(texts)) {
    await files.writeAtomic(`${DIRECTORY}/${name}`, text);
  }
}

describe("finding the file of a network", () => {
  test.each([
    {
      name: "is found by the network's name",
      texts: { "a.conf": GREEN, "b.conf": BLUE },
      want: "b.conf",
    },
    {
      name: "is the first match by file name",
      texts: { "20-z.conf": BLUE, "10-a.conflist": BLUE },
      want: "10-a.conflist",
    },
    { name: "may end with .json", texts: { "a.json": BLUE }, want: "a.json" },
    {
      name: "is not found with an unknown extension",
      texts: { "a.conf.bak": BLUE },
      want: undefined,
    },
    {
      name: "is found after broken files",
      texts: { "a.conf": "{", "b.conf": "[]", "c.conf": BLUE },
      want: "c.conf",
    },
    { name: "is not found by its own file name", texts: { "blue.conf": GREEN }, want: undefined },
  ])("$name", async ({ texts, want }) => {
    await put(texts);
    const { file } = await definitions.find("blue");
    const path = `${DIRECTORY}/${want ?? ""}`;
    expect(file).toEqual(want === undefined ? undefined : { path, text: BLUE });
  });
});

test("lists the known names and the unreadable files when no file matches", async () => {
  await put({ "a.conf": GREEN, "b.conf": "{nope", "c.json": '{"type":"x"}', "d.conf": '"x"' });
  await put({ "e.conf": BLUE, "f.conf": GREEN });
  expect(await definitions.find("red")).toEqual({
    networkNames: ["blue", "green"],
    unreadableFiles: [
      expect.stringMatching(/^b\.conf is not a JSON object: /),
      "c.json has no name",
      "d.conf is not a JSON object",
    ],
  });
});

test("a missing directory has no definitions", async () => {
  expect(await definitions.find("blue")).toEqual({ networkNames: [], unreadableFiles: [] });
});

test("logs a broken file once, and again when its fault changes", async () => {
  await put({ "a.conf": "[]", "b.conf": BLUE });
  await definitions.find("blue");
  await definitions.find("blue");
  const warning = { level: "warn", message: "a file defines no network" };
  expect(logger.lines).toMatchObject([
    { ...warning, fields: { path: "/definitions/a.conf", reason: "is not a JSON object" } },
  ]);
  await put({ "a.conf": "{}" });
  await definitions.find("blue");
  await put({ "a.conf": GREEN });
  await definitions.find("blue");
  await put({ "a.conf": "{}" });
  await definitions.find("blue");
  expect(logger.lines.map(({ fields }) => fields["reason"])).toEqual([
    "is not a JSON object",
    "has no name",
    "has no name",
  ]);
});

test("an unreadable file does not hide other files", async () => {
  await put({ "a.conf": GREEN, "b.conf": BLUE, "c.conf": GREEN });
  const refusing = {
    list: (directory: string) => files.list(directory),
    readText: (path: string) => {
      if (path.endsWith("a.conf")) {
        return Promise.reject(new AppError("OS_FILE_FAILED", { path, reason: "EISDIR" }));
      }
      return path.endsWith("c.conf") ? Promise.resolve(undefined) : files.readText(path);
    },
  };
  const some = createDefinitionFiles({ files: refusing, log: logger }, DIRECTORY);
  expect((await some.find("blue")).file?.text).toBe(BLUE);
  const { networkNames: names, unreadableFiles: unreadable } = await some.find("green");
  expect(names).toEqual(["blue"]);
  expect(unreadable).toEqual([
    expect.stringMatching(/^a\.conf cannot be read: .*EISDIR/),
    "c.conf is gone",
  ]);
});

test("rethrows errors other than file errors", async () => {
  await put({ "a.conf": BLUE });
  const broken = { list: files.list.bind(files), readText: () => Promise.reject(new Error("odd")) };
  const some = createDefinitionFiles({ files: broken, log: logger }, DIRECTORY);
  await expect(some.find("blue")).rejects.toThrow("odd");
});
