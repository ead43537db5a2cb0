// SPDX-License-Identifier: Apache-2.0
// What is in a file that may be a disk? Asked of qemu-img, which a hostile file may take over: it runs as nobody who may
// do anything, without a network, and within limits.
import { names } from "@patchbay/api";
import { AppError } from "@patchbay/core";
import type { ProcessRunner } from "@patchbay/core/ports";

/** A header is read in milliseconds; the rest is a slow disk's. */
const TIMEOUT_MS = 60_000;
/** Most memory, bytes, and computing time, seconds: a good file takes 20 MiB and no second. */
const MEMORY = 2 ** 30;
const CPU_SECONDS = 10;
const FILES = 64;
/** Exit code of a program that starts another one, which is not there. Source: setpriv(1), prlimit(1), unshare(1). */
const NOT_FOUND = 127;
/** Of what it said, characters. */
const REASON_MAX = 300;

const USER = String(names.LAUNCHER_UID);
const CONFINED = [
  "unshare",
  "--net",
  "--ipc",
  "--",
  "prlimit",
  `--as=${String(MEMORY)}`,
  `--cpu=${String(CPU_SECONDS)}`,
  `--nofile=${String(FILES)}`,
  "--fsize=0",
  "--core=0",
  "--",
  "setpriv",
  `--reuid=${USER}`,
  `--regid=${USER}`,
  "--clear-groups",
  "--no-new-privs",
  "--inh-caps=-all",
  "--bounding-set=-all",
  "--",
];
/** The file is opened before, and read by its descriptor: its user need not reach its directory. */
const WITH_FILE_AS_STDIN = 'file=$1; shift; exec "$@" <"$file"';

/**
 * What `qemu-img info --output=json` prints of the file, which the launchers' user may read.
 * @throws AppError with IMAGE_SOURCE_INVALID in its words, OS_PROGRAM_MISSING, OS_TIMED_OUT
 */
export async function lookAtDisk(
  runner: ProcessRunner,
  { path, source }: { readonly path: string; readonly source: string },
): Promise<string> {
  const info = ["qemu-img", "info", "--output=json", "/dev/stdin"];
  const { exitCode, stdout, stderr } = await runner.run({
    argv: ["sh", "-c", WITH_FILE_AS_STDIN, "sh", path, ...CONFINED, ...info],
    timeoutMs: TIMEOUT_MS,
  });
  if (exitCode === 0) return stdout;
  if (exitCode === NOT_FOUND) throw new AppError("OS_PROGRAM_MISSING", { program: "qemu-img" });
  const said = stderr.trim().split("\n").at(-1) ?? "";
  // A terminal obeys control characters.
  const reason = said
    .replaceAll("/dev/stdin", source)
    .replace(/\p{Cc}/gu, "?")
    .slice(0, REASON_MAX);
  throw new AppError("IMAGE_SOURCE_INVALID", {
    source,
    reason: reason === "" ? `qemu-img ended with ${String(exitCode)}` : reason,
  });
}
