// SPDX-License-Identifier: Apache-2.0
// How is a file written that nobody has yet, as its content comes?
import { createWriteStream } from "node:fs";
import type { Writable } from "node:stream";

/** Its owner's alone. */
const MODE = 0o600;

/** Writes what comes; the stream fails with EEXIST where something is there already, which stays as it is. */
export function openNewFile(path: string): Writable {
  return createWriteStream(path, { flags: "wx", mode: MODE });
}
