// SPDX-License-Identifier: Apache-2.0
// patchbay image list: lists images.
import { resolve } from "node:path";
import type { Command, Context } from "../../command.ts";
import { printResult } from "../../print/output.ts";
import { printSize } from "../../print/size.ts";
import { printTable } from "../../print/table.ts";

async function run(context: Context): Promise<void> {
  const { listImages } = await import("@patchbay/standalone");
  const images = await listImages(resolve(context.global.dataDir));
  await printResult(context, {
    table: () =>
      images.length === 0
        ? "no images\n"
        : printTable(
            ["NAME", "DIGEST", "SIZE"],
            images.map(({ name, digest, bytes }) => [name, digest, printSize(bytes)]),
          ),
    data: images,
    names: images.map(({ name }) => `image/${name}`),
  });
}

/** Needs no machine that is up. */
export const imageList: Command = {
  name: "image list",
  args: [],
  summary: "List images with their digests and sizes",
  flags: [],
  run,
};
