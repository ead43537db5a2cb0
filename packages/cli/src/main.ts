// SPDX-License-Identifier: Apache-2.0
// Entry point of patchbay. Must not import large modules, because they would slow the start of every command.
import { VERSION } from "@patchbay/base/version";
import { readEnvironment } from "./config.ts";
import type { ProcessContext } from "./program.ts";
import { runCall } from "./run-call.ts";

// Files for pods and plugins must not depend on the caller's umask. Files that must be private are created with a private mode.
const callersUmask = process.umask(0o022);

function createProcessContext(): ProcessContext {
  const interrupted = new AbortController();
  for (const name of ["SIGINT", "SIGTERM"] as const) {
    process.once(name, () => {
      interrupted.abort(new Error(`interrupted by ${name}`));
    });
  }
  return {
    out: process.stdout,
    err: process.stderr,
    environment: { ...readEnvironment(), callersUmask },
    version: VERSION,
    signal: interrupted.signal,
  };
}

process.stdout.on("error", () => undefined); // The reader of the output may exit early, as in `patchbay ... | head`.
process.exitCode = await runCall(createProcessContext(), process.argv.slice(2));
