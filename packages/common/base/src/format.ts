// SPDX-License-Identifier: Apache-2.0
import { AppError } from "./errors/app-error.ts";

/** Format of data that names none, because Patchbay 0.1 wrote it. */
export const FIRST_FORMAT = 1;

/** Rejects data in a newer format, which this version would misread. @throws AppError with FORMAT_TOO_NEW */
export function checkFormat(path: string, found: unknown, supported: number): void {
  if (typeof found === "number" && found <= supported) return;
  throw new AppError("FORMAT_TOO_NEW", { path, found: String(found), supported });
}

/** Format of a file that states the format itself, for example `patchbay-backup/1`. */
interface FileFormat {
  readonly name: string;
  readonly version: number;
}

export function printFormat({ name, version }: FileFormat): string {
  return `${name}/${String(version)}`;
}

/** Returns false if the text names another kind of file. @throws AppError with FORMAT_TOO_NEW */
export function isSupportedFormat(text: string, path: string, supported: FileFormat): boolean {
  const [name, version] = text.split("/");
  if (name !== supported.name) return false;
  checkFormat(path, Number(version), supported.version);
  return true;
}
