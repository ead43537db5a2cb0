// SPDX-License-Identifier: Apache-2.0
// What does the process know from outside: its environment and its version?
import { readFileSync } from "node:fs";
import type { Environment } from "./command.ts";

/** Default of `--data-dir`. */
export const DEFAULT_DATA_DIR = "/var/lib/patchbay";

/** The environment that the command line reads. */
export function readEnvironment(): Environment {
  const kubeconfig = process.env["KUBECONFIG"];
  const home = process.env["HOME"];
  const [, script] = process.argv;
  return {
    ...(kubeconfig !== undefined && kubeconfig !== "" && { kubeconfig }),
    ...(home !== undefined && home !== "" && { home }),
    ...(script !== undefined && { program: [process.execPath, script] }),
  };
}

/** The version of this package. */
export function readVersion(): string {
  const text = readFileSync(new URL("../package.json", import.meta.url), "utf8");
  const manifest = JSON.parse(text) as { readonly version: string }; // our own file
  return manifest.version;
}
