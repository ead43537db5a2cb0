// SPDX-License-Identifier: Apache-2.0
// patchbay image add: makes an image that VMs and pods can name.
import { resolve } from "node:path";
import type { Command, Context } from "../../command.ts";
import { argumentAt, type Input } from "../../input.ts";
import { printResult } from "../../print/output.ts";
import { printSize } from "../../print/size.ts";

async function run(context: Context, input: Input): Promise<void> {
  const { addImage } = await import("@patchbay/standalone");
  const image = await addImage({
    dataDir: resolve(context.global.dataDir),
    name: argumentAt(input, 0),
    source: argumentAt(input, 1),
    print: (line) => {
      context.err.write(`${line}\n`);
    },
    signal: context.signal,
  });
  await printResult(context, {
    table: () => `image ${image.name} added: ${image.digest}, ${printSize(image.bytes)}\n`,
    data: image,
    names: [`image/${image.name}`],
  });
}

/** Replaces an image of that name. */
export const imageAdd: Command = {
  name: "image add",
  args: ["<name>", "<source>"],
  values: ["images", "files"],
  summary:
    "Make an image from a disk, a directory, an OCI or Docker archive, or an image in a registry",
  flags: [],
  run,
};
