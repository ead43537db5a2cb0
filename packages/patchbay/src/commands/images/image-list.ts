// SPDX-License-Identifier: Apache-2.0
// patchbay image list: lists images.
import { join } from "node:path";
import type { Command, Context } from "../../command.ts";
import { printResult } from "../../print/output.ts";
import { printTable } from "../../print/table.ts";

async function run(context: Context): Promise<void> {
  const { createFiles } = await import("@patchbay/os");
  const { imagesDirectory } = await import("./directory.ts");
  const directory = imagesDirectory(context.global.dataDir);
  const all = await createFiles().list(directory);
  // Names with a process id are copies that are being made.
  const names = all.filter((name) => !/\.\d+\.(new|old)$/.test(name));
  const images = names.map((name) => ({ name, path: join(directory, name) }));
  await printResult(context, {
    table: () =>
      images.length === 0
        ? "no images\n"
        : printTable(
            ["NAME", "PATH"],
            images.map(({ name, path }) => [name, path]),
          ),
    data: images,
    names: names.map((name) => `image/${name}`),
  });
}

/** Needs no machine that is up. */
export const imageList: Command = {
  name: "image list",
  args: [],
  summary: "List images",
  flags: [],
  run,
};
