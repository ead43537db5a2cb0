// SPDX-License-Identifier: Apache-2.0
// Where are the images of the standalone machine?
import { join } from "node:path";
import { AppError } from "@patchbay/core/errors";

/** A name that is a directory's name: no slash, no leading dot. */
const NAME = /^[A-Za-z0-9][A-Za-z0-9._:@-]*$/;

/** Directory of all images. */
export function imagesDirectory(dataDir: string): string {
  return join(dataDir, "images");
}

/**
 * Directory of one image.
 * @throws AppError with IMAGE_NAME_INVALID when the name cannot be a directory's.
 */
export function imageDirectory(dataDir: string, name: string): string {
  if (NAME.test(name)) return join(imagesDirectory(dataDir), name);
  throw new AppError("IMAGE_NAME_INVALID", { image: name });
}
