// SPDX-License-Identifier: Apache-2.0
// Which process is a component of a standalone machine? And how is one brought up by what is built?
import { join } from "node:path";
import { createFiles, createProcessRunner } from "@patchbay/os";
import { executableOf } from "@patchbay/support";

/** How long a machine may take to come up on a busy host, milliseconds. */
const UP_MS = 180_000;
const FROM_SOURCES = join(
  import.meta.dirname,
  "../../../packages/standalone/supervisor/src/main.ts",
);
const BUILT = join(import.meta.dirname, "../../../packages/cli/dist/bundle/machine.js");

/** A process, told from a later one of the same pid. */
export interface NamedProcess {
  readonly pid: number;
  readonly startTime: string;
}

/** As the supervisor has written it down; without members where it has not. */
export async function processOf(dataDir: string, name: string): Promise<NamedProcess> {
  const text = (await createFiles().readText(join(dataDir, "run", `${name}.json`))) ?? "{}";
  // Written by the supervisor.
  return JSON.parse(text) as NamedProcess;
}

/**
 * `patchbay up` as users run it: supervisor and API server are what is built, and start for 0.35 s of a processor each;
 * those that \`up\` starts from sources, for 2 s. What it says is given to \`print\`, line by line.
 * @throws Error with what it has said, where it fails
 */
export async function bringUp(
  dataDir: string,
  flags: readonly string[],
  print: (line: string) => void,
): Promise<void> {
  const argv = [executableOf("patchbay"), "up", "--data-dir", dataDir, ...flags] as const;
  const { exitCode, stderr } = await createProcessRunner().run({ argv, timeoutMs: UP_MS });
  if (exitCode !== 0) throw new Error(stderr);
  for (const line of stderr.trimEnd().split("\n")) print(line);
}

/** The same program as it is built, for the same reason. */
export function asBuilt<T extends { readonly argv: readonly [string, ...string[]] }>(
  program: T,
): T {
  const [node, ...args] = program.argv;
  return { ...program, argv: [node, ...args.map((arg) => (arg === FROM_SOURCES ? BUILT : arg))] };
}
