// SPDX-License-Identifier: Apache-2.0
// patchbay image remove: removes an image.
import { resolve } from "node:path";
import type { Command, Context } from "../../command.ts";
import { argumentAt, type Input } from "../../input.ts";
import { printResult } from "../../print/output.ts";

async function run(context: Context, input: Input): Promise<void> {
  const { AppError } = await import("@patchbay/core/errors");
  const { removeImage } = await import("@patchbay/standalone");
  const { findImageUsers } = await import("./users.ts");
  const name = argumentAt(input, 0);
  const users = await findImageUsers(context, name);
  if (users.length > 0) {
    throw new AppError("IMAGE_IN_USE", { image: name, users: users.join(", ") });
  }
  await removeImage(resolve(context.global.dataDir), name);
  await printResult(context, {
    table: () => `image ${name} removed\n`,
    data: { name },
    names: [`image/${name}`],
  });
}

/** Refused while a VM, a VMI or a pod names it. */
export const imageRemove: Command = {
  name: "image remove",
  args: ["<name>"],
  values: ["images"],
  summary: "Remove an image that no VM and no pod uses",
  flags: [],
  run,
};
