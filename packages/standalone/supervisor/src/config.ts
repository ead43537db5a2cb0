// SPDX-License-Identifier: Apache-2.0
import { existsSync, readFileSync } from "node:fs";
import { hostname } from "node:os";
import { fileURLToPath } from "node:url";
import { parseFields, readText } from "./data-dir/json.ts";
import type { Argv, WantedSettings } from "./settings/settings.ts";

/** Whether this process and its children run from sources instead of compiled files. */
const isSource = import.meta.url.endsWith(".ts");
const mainFile = fileURLToPath(
  isSource ? new URL("./main.ts", import.meta.url) : new URL("./main.js", import.meta.url),
);

const BUILD_FILE = new URL("../../../cli/dist/bundle/build.json", import.meta.url);

/** Program that runs a machine. `build` is the hash of its code; programs with the same build behave alike. */
export interface Build {
  readonly version: string;
  readonly build: string;
}

export function readBuild(): Build {
  const readField = (file: URL, name: string): string =>
    existsSync(file) ? readText(parseFields(readFileSync(file, "utf8")), name) : "";
  const version = readField(new URL("../package.json", import.meta.url), "version");
  return { version, build: isSource ? "source" : readField(BUILD_FILE, "build") };
}

/** Maximum size of V8's semi-spaces in MB. The default of 16 uses 50 MB more memory without a measurable gain. */
const SEMI_SPACE_FLAG = "--max-semi-space-size=4";

/** As in packages/adapters/os/bin/program, which states the reasons. */
const MALLOC_SETTINGS = ["MALLOC_ARENA_MAX=1", "MALLOC_MMAP_THRESHOLD_=131072"];

export type Role = "supervisor" | "apiserver";

export interface ProcessArguments extends WantedSettings {
  readonly role: Role;
  /** File with settings, which override the stored ones at each start. */
  readonly settingsFile?: string;
  readonly dataDir: string;
}

function ownCommand(): Argv {
  const options = isSource ? ["--conditions=@patchbay/source"] : [];
  return [process.execPath, SEMI_SPACE_FLAG, ...options, mainFile];
}

export function buildCommand(
  role: Role,
  dataDir: string,
  requestedSettings: WantedSettings = {},
): Argv {
  return [...ownCommand(), JSON.stringify({ role, dataDir, ...requestedSettings })];
}

export function buildApiServerCommand(dataDir: string, command?: Argv): Argv {
  const program = command ?? ["env", ...MALLOC_SETTINGS, ...ownCommand()];
  return [...program, JSON.stringify({ role: "apiserver", dataDir })];
}

export function parseArguments(argv: readonly string[]): ProcessArguments {
  // The cast is safe, because only functions of this module build the arguments.
  return JSON.parse(argv[2] ?? "{}") as ProcessArguments;
}

export function printResult(line: string): void {
  process.stdout.write(`${line}\n`);
}

/** Prints a line to standard error, because standard output is reserved for results. */
export function printProgress(line: string): void {
  process.stderr.write(`${line}\n`);
}

export function ownPid(): number {
  return process.pid;
}

export function isRoot(): boolean {
  return process.geteuid?.() === 0;
}

/** Returns the CPU architecture in the notation of Node.js, `x64` or `arm64`. */
export function readArchitecture(): string {
  return process.arch;
}

/** Returns the CPU architecture in the notation of Go and images, `amd64` or `arm64`. */
export function readGoArchitecture(): string {
  return process.arch === "x64" ? "amd64" : process.arch;
}

/** Returns the hostname in lower case, as Kubernetes requires for names. */
export function readHostNodeName(): string {
  return hostname().toLowerCase();
}

export function createStopSignal(): AbortSignal {
  const stopController = new AbortController();
  for (const name of ["SIGTERM", "SIGINT"] as const) {
    process.on(name, () => {
      stopController.abort(new Error(`stopped by ${name}`));
    });
  }
  return stopController.signal;
}
