// SPDX-License-Identifier: Apache-2.0
// This package's own process: arguments, output, signals and host facts.
import { hostname } from "node:os";
import { fileURLToPath } from "node:url";
import type { Argv, WantedSettings } from "./settings/settings.ts";

/** Whether this process runs from sources, in which case its children do too. */
const isSource = import.meta.url.endsWith(".ts");
const main = fileURLToPath(
  isSource ? new URL("./main.ts", import.meta.url) : new URL("../dist/main.js", import.meta.url),
);

/** Size in MB. The default of 16 uses 50 MB more memory without a measurable gain. */
const SEMI_SPACE_FLAG = "--max-semi-space-size=4";

export type Role = "supervisor" | "apiserver";

export interface ProcessArguments extends WantedSettings {
  readonly role: Role;
  readonly dataDir: string;
}

function ownCommand(): Argv {
  const options = isSource ? ["--conditions=@patchbay/source"] : [];
  return [process.execPath, SEMI_SPACE_FLAG, ...options, main];
}

export function commandFor(role: Role, dataDir: string, wanted: WantedSettings = {}): Argv {
  return [...ownCommand(), JSON.stringify({ role, dataDir, ...wanted })];
}

/** `command` runs in place of this program. Default: this program. */
export function apiServerCommand(dataDir: string, command: Argv = ownCommand()): Argv {
  return [...command, JSON.stringify({ role: "apiserver", dataDir })];
}

export function parseArguments(argv: readonly string[]): ProcessArguments {
  // The cast is safe, because only commandFor writes the arguments.
  return JSON.parse(argv[2] ?? "{}") as ProcessArguments;
}

export function printResult(line: string): void {
  process.stdout.write(`${line}\n`);
}

/** Prints to standard error, because standard output is for results. */
export function printProgress(line: string): void {
  process.stderr.write(`${line}\n`);
}

export function ownPid(): number {
  return process.pid;
}

export function isRoot(): boolean {
  return process.geteuid?.() === 0;
}

/** Returns the CPU architecture as Node.js names it: `x64` or `arm64`. */
export function architecture(): string {
  return process.arch;
}

/** Returns the CPU architecture as Go and images name it: `amd64` or `arm64`. */
export function goArchitecture(): string {
  return process.arch === "x64" ? "amd64" : process.arch;
}

/** Returns the hostname in lower case, like all names in Kubernetes. */
export function readHostNodeName(): string {
  return hostname().toLowerCase();
}

export function stopSignal(): AbortSignal {
  const stop = new AbortController();
  for (const name of ["SIGTERM", "SIGINT"] as const) {
    process.on(name, () => {
      stop.abort(new Error(`stopped by ${name}`));
    });
  }
  return stop.signal;
}
