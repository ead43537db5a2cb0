// SPDX-License-Identifier: Apache-2.0
// The compiled executables that users start. A start from sources takes three times as much processor time. Suites that
// start them have `build` as their setup.
import { spawnSync } from "node:child_process";
import { join } from "node:path";

const ROOT = join(import.meta.dirname, "../../../..");
const FOLDERS = {
  patchbay: "cli",
  "node-runtime": "standalone/node-runtime",
  "service-net": "standalone/service-net",
  "net-agent": "control-plane/net-agent",
  "virt-api": "control-plane/virt-api",
  "virt-controller": "control-plane/virt-controller",
  "virt-handler": "control-plane/virt-handler",
} as const;

export type ProgramName = keyof typeof FOLDERS;

export function executableOf(name: ProgramName): string {
  return join(ROOT, "packages", FOLDERS[name], "bin", name);
}

function run(...args: readonly string[]): void {
  spawnSync(process.execPath, args, { cwd: ROOT, stdio: ["ignore", "inherit", "inherit"] });
}

/** Compiles changed programs before the tests; type errors are left to the type check. */
export function setup(): void {
  const folders = Object.values(FOLDERS).map((folder) => join("packages", folder));
  run("node_modules/typescript/bin/tsc", "-b", ...folders);
  run("hack/programs/main.ts");
}
