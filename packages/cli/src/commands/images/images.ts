// SPDX-License-Identifier: Apache-2.0
// patchbay image add, image list and image remove.
import { resolve } from "node:path";
import type { Command, Context } from "../../command.ts";
import { argumentAt, type Input } from "../../input.ts";
import { printResult } from "../../print/output.ts";
import { printSize } from "../../print/size.ts";
import { printTable } from "../../print/table.ts";

async function runImageAdd(context: Context, input: Input): Promise<void> {
  const { addImage } = await import("@patchbay/supervisor");
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

export const imageAdd: Command = {
  name: "image add",
  args: ["<name>", "<source>"],
  values: ["images", "files"],
  summary:
    "Make an image from a disk, a directory, an OCI or Docker archive, or an image in a registry",
  flags: [],
  run: runImageAdd,
};

async function runImageList(context: Context): Promise<void> {
  const { listImages } = await import("@patchbay/supervisor");
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

export const imageList: Command = {
  name: "image list",
  args: [],
  summary: "List images with their digests and sizes",
  flags: [],
  run: runImageList,
};

async function runImageRemove(context: Context, input: Input): Promise<void> {
  const { AppError } = await import("@patchbay/base");
  const { removeImage } = await import("@patchbay/supervisor");
  const { findImageUsers } = await import("./users.ts");
  const name = argumentAt(input, 0);
  const users = await findImageUsers(context, name);
  if (users !== undefined && users.length > 0) {
    throw new AppError("IMAGE_IN_USE", { image: name, users: users.join(", ") });
  }
  await removeImage(resolve(context.global.dataDir), name);
  if (users === undefined) {
    context.err.write(
      "warning: the machine does not run, so VMs that use the image are not known; one that does needs `patchbay image add` before its next start\n",
    );
  }
  await printResult(context, {
    table: () => `image ${name} removed\n`,
    data: { name },
    names: [`image/${name}`],
  });
}

/** Removes an image unless a VM, VMI or pod uses it. If the machine is stopped, prints a warning and skips this check. */
export const imageRemove: Command = {
  name: "image remove",
  args: ["<name>"],
  values: ["images"],
  summary: "Remove an image that no VM and no pod uses",
  flags: [],
  run: runImageRemove,
};
