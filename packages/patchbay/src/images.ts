// SPDX-License-Identifier: Apache-2.0
// Where are the images of the standalone machine?
import { join } from "node:path";
import { AppError } from "@patchbay/core";

/** A name that is a directory's name: no slash, no leading dot. */
const NAME = /^[A-Za-z0-9][A-Za-z0-9._:@-]*$/;

/** Directory of all images. */
export function imagesDirectory(dataDir: string): string {
  return join(dataDir, "images");
}

/**
 * Directory of one image.
 * @throws AppError with OS_PATH_REFUSED when the name cannot be a directory's.
 */
export function imageDirectory(dataDir: string, name: string): string {
  const path = join(imagesDirectory(dataDir), name);
  if (NAME.test(name)) return path;
  const reason = "an image's name has letters, digits and . _ : @ - only";
  throw new AppError("OS_PATH_REFUSED", { path, reason });
}
