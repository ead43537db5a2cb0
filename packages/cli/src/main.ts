// SPDX-License-Identifier: Apache-2.0
// Entry point of patchbay. Large imports here would slow the start of every command.
import { readEnvironment, readVersion } from "./config.ts";
import type { ProcessContext } from "./program.ts";
import { runCall } from "./run-call.ts";

// Pods and plugins must be able to read files, whatever the caller's umask is.
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
    version: readVersion(),
    signal: interrupted.signal,
  };
}

process.stdout.on("error", () => undefined); // The reader of the output may exit early, as in `patchbay ... | head`.
process.exitCode = await runCall(createProcessContext(), process.argv.slice(2));
