// SPDX-License-Identifier: Apache-2.0
import { isJsonObject, parseJson } from "@patchbay/api/json";
import { checkFormat, FIRST_FORMAT } from "@patchbay/base";
import type { Files } from "@patchbay/core/interfaces";

/**
 * Records that this process writes its state directory in the format `supported`, so that older versions refuse the directory.
 * The first format is not recorded. @throws AppError with FORMAT_TOO_NEW if the directory has a newer one
 */
export async function claimStateFormat(
  files: Files,
  directory: string,
  supported: number,
): Promise<void> {
  const path = `${directory}/format.json`;
  const text = await files.readText(path);
  const fields = parseJson(text);
  const recorded = isJsonObject(fields) ? fields["format"] : text;
  const found = text === undefined ? FIRST_FORMAT : recorded;
  checkFormat(directory, found, supported);
  if (found !== supported) {
    await files.ensureDirectory(directory, 0o700);
    await files.writeAtomic(path, `${JSON.stringify({ format: supported })}\n`);
  }
}
