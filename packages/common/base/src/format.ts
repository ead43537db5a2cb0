// SPDX-License-Identifier: Apache-2.0
import { AppError } from "./errors/app-error.ts";

/** Format of data that names none, because Patchbay 0.1 wrote it. */
export const FIRST_FORMAT = 1;

/** Rejects data in a newer format, which this version would misread. @throws AppError with FORMAT_TOO_NEW */
export function checkFormat(path: string, found: unknown, supported: number): void {
  if (typeof found === "number" && found <= supported) return;
  throw new AppError("FORMAT_TOO_NEW", { path, found: String(found), supported });
}
