// SPDX-License-Identifier: Apache-2.0
// Finds and starts the components of a standalone machine.
import { join } from "node:path";
import { createFiles, createProcessRunner } from "@patchbay/os";
import { executableOf } from "@patchbay/support";

/** Time for a machine to start on a busy host, milliseconds. */
const UP_MS = 180_000;
const FROM_SOURCES = join(
  import.meta.dirname,
  "../../../packages/standalone/supervisor/src/main.ts",
);
const BUILT = join(import.meta.dirname, "../../../packages/cli/dist/bundle/machine.js");

/** A process, distinguished from a later one of the same pid. */
export interface NamedProcess {
  readonly pid: number;
  readonly startTime: string;
}

/** As recorded by the supervisor; members are missing if it has not. */
export async function processOf(dataDir: string, name: string): Promise<NamedProcess> {
  const text = (await createFiles().readText(join(dataDir, "run", `${name}.json`))) ?? "{}";
  // Written by the supervisor.
  return JSON.parse(text) as NamedProcess;
}

/**
 * `patchbay up` as users run it: compiled supervisor and API server start in 0.35 s of processor time each, from
 * sources in 2 s. \`print\` receives its output by lines.
 *
 * @throws Error with its output on failure
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

/** The same program, compiled for the same reason. */
export function asBuilt<T extends { readonly argv: readonly [string, ...string[]] }>(
  program: T,
): T {
  const [node, ...args] = program.argv;
  return { ...program, argv: [node, ...args.map((arg) => (arg === FROM_SOURCES ? BUILT : arg))] };
}
