// SPDX-License-Identifier: Apache-2.0
// Runs commands within a test's process.
import { createProgram, type ProcessContext } from "../program.ts";
import { runCall } from "../run-call.ts";

export interface Ended {
  readonly out: string;
  readonly error: unknown;
}

/** Runs one command. Returns its error instead of throwing it. Passes each printed text to `onPrint` at once. */
export async function runPatchbay(
  args: readonly string[],
  signal: AbortSignal,
  printed: (text: string) => void = () => undefined,
): Promise<Ended> {
  let out = "";
  const program = createProgram({
    out: {
      write: (text) => {
        out += text;
        printed(text);
      },
    },
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

export interface Called {
  readonly exitCode: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a call like the program, but without a new process and without environment variables, which is faster. */
export async function callPatchbay(args: readonly string[]): Promise<Called> {
  let stdout = "";
  let stderr = "";
  const processContext: ProcessContext = {
    out: { write: (text) => (stdout += text) },
    err: { write: (text) => (stderr += text) },
    environment: {},
    version: "1.2.3",
    signal: new AbortController().signal,
  };
  const exitCode = await runCall(processContext, args);
  return { exitCode, stdout, stderr };
}

export function maskTimes(text: string): string {
  return text.replace(/(?<!\d)\d+\.\d{3}/g, "T").replace(/^ +/gm, "");
}
