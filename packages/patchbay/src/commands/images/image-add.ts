// SPDX-License-Identifier: Apache-2.0
// patchbay image add: copies a directory into an image.
import { resolve } from "node:path";
import { createFiles, replaceDirectory } from "@patchbay/os";
import { argumentAt, type Context, type Input } from "../../context.ts";
import { imageDirectory, imagesDirectory } from "./directory.ts";
import { printResult } from "../../print/output.ts";

/** Runs the command. */
export async function run(context: Context, input: Input): Promise<void> {
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
