// SPDX-License-Identifier: Apache-2.0
// The command line within a test's process.
import { createProgram } from "../program.ts";

/** What it printed, and what it ended with. */
export interface Ended {
  readonly out: string;
  readonly error: unknown;
}

/** Runs one command; what it throws is part of the answer. */
export async function runPatchbay(args: readonly string[], signal: AbortSignal): Promise<Ended> {
  let out = "";
  const program = createProgram({
    out: { write: (text) => (out += text) },
    err: { write: () => undefined },
    environment: {},
    version: "1.2.3",
    signal,
  });
  try {
    await program.parseAsync([...args], { from: "user" });
    return { out, error: undefined };
  } catch (error) {
    return { out, error };
  }
}

/** The text without times. */
export function timeless(text: string): string {
  return text.replace(/(?<!\d)\d+\.\d{3}/g, "T").replace(/^ +/gm, "");
}
