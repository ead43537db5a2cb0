// SPDX-License-Identifier: Apache-2.0
// patchbay image remove: removes an image.
import { AppError } from "@patchbay/core";
import { createFiles } from "@patchbay/os";
import { argumentAt, type Context, type Input } from "../../context.ts";
import { findImageUsers } from "./users.ts";
import { imageDirectory } from "./directory.ts";
import { printResult } from "../../print/output.ts";

/** Runs the command. */
export async function run(context: Context, input: Input): Promise<void> {
  const name = argumentAt(input, 0);
  const path = imageDirectory(context.global.dataDir, name);
  const files = createFiles();
  if (!(await files.exists(path))) throw new AppError("RUNTIME_IMAGE_MISSING", { image: name });
  const users = await findImageUsers(context, name);
  if (users.length > 0)
    throw new AppError("IMAGE_IN_USE", { image: name, users: users.join(", ") });
  await files.remove(path);
  await printResult(context, {
    table: () => `image ${name} removed\n`,
    data: { name, path },
    names: [`image/${name}`],
  });
}
