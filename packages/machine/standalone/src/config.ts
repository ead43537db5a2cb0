// SPDX-License-Identifier: Apache-2.0
// What this package needs to know of its own process: the flags of the supervisor, and how it is called again.
import { hostname } from "node:os";
import { fileURLToPath } from "node:url";
import type { WantedSettings } from "./settings/settings.ts";

/** From sources the supervisor runs sources too. */
const isSource = import.meta.url.endsWith(".ts");
const main = fileURLToPath(
  isSource ? new URL("./main.ts", import.meta.url) : new URL("./main.js", import.meta.url),
);

/** Half of what V8 takes for short-lived objects, MB: the default of 16 costs 50 MB of memory and wins nothing here. */
const YOUNG_OBJECTS = "--max-semi-space-size=4";

/** What the process is to be. */
export type Role = "supervisor" | "apiserver";

/** Arguments of the process. */
export interface ProcessArguments extends WantedSettings {
  readonly role: Role;
  readonly dataDir: string;
}

/** The command line that starts this package in a process of its own. */
export function commandFor(
  role: Role,
  dataDir: string,
  wanted: WantedSettings = {},
): readonly [string, ...string[]] {
  const options = isSource ? ["--conditions=@patchbay/source"] : [];
  return [
    process.execPath,
    YOUNG_OBJECTS,
    ...options,
    main,
    JSON.stringify({ role, dataDir, ...wanted }),
  ];
}

/** Reads the arguments that {@link commandFor} wrote. */
export function parseArguments(argv: readonly string[]): ProcessArguments {
  // Written by commandFor only.
  return JSON.parse(argv[2] ?? "{}") as ProcessArguments;
}

/** Prints the one line that whoever started this process waits for. */
export function printResult(line: string): void {
  process.stdout.write(`${line}\n`);
}

/** Prints what is going on; results go to standard output, this does not. */
export function printProgress(line: string): void {
  process.stderr.write(`${line}\n`);
}

/** This process. */
export function ownPid(): number {
  return process.pid;
}

/** Whether this process is root's. */
export function isRoot(): boolean {
  return process.geteuid?.() === 0;
}

/** As Node.js says: `x64` or `arm64`. */
export function architecture(): string {
  return process.arch;
}

/** As Go and images say: `amd64` or `arm64`. */
export function goArchitecture(): string {
  return process.arch === "x64" ? "amd64" : process.arch;
}

/** The machine's name as a Kubernetes name. */
export function nodeNameOfHost(): string {
  return hostname().toLowerCase();
}

/** Aborted by SIGTERM or SIGINT. */
export function stopSignal(): AbortSignal {
  const stop = new AbortController();
  for (const name of ["SIGTERM", "SIGINT"] as const) {
    process.on(name, () => {
      stop.abort(new Error(`stopped by ${name}`));
    });
  }
  return stop.signal;
}
