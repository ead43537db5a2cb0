// SPDX-License-Identifier: Apache-2.0
// patchbay image add: copies a directory into an image.
import { resolve } from "node:path";
import type { Command, Context } from "../../command.ts";
import { argumentAt, type Input } from "../../input.ts";
import { printResult } from "../../print/output.ts";

async function run(context: Context, input: Input): Promise<void> {
  const { createFiles, replaceDirectory } = await import("@patchbay/os");
  const { imageDirectory, imagesDirectory } = await import("./directory.ts");
  const { dataDir } = context.global;
  const name = argumentAt(input, 0);
  const path = resolve(imageDirectory(dataDir, name));
  await createFiles().ensureDirectory(imagesDirectory(dataDir));
  await replaceDirectory(resolve(argumentAt(input, 1)), path);
  await printResult(context, {
    table: () => `image ${name} added\n`,
    data: { name, path },
    names: [`image/${name}`],
  });
}

/** Replaces an image of that name. */
export const imageAdd: Command = {
  name: "image add",
  args: ["<name>", "<directory>"],
  values: ["images", "directories"],
  summary: "Copy a directory into an image that VMs can name",
  flags: [],
  run,
};
