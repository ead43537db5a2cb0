// SPDX-License-Identifier: Apache-2.0
// patchbay image list: lists images.
import { join } from "node:path";
import { createFiles } from "@patchbay/os";
import type { Context } from "../../context.ts";
import { imagesDirectory } from "./directory.ts";
import { printResult } from "../../print/output.ts";
import { printTable } from "../../print/table.ts";

/** Runs the command. */
export async function run(context: Context): Promise<void> {
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
