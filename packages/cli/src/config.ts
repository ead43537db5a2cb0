// SPDX-License-Identifier: Apache-2.0
// Environment and version of the process.
import { readFileSync } from "node:fs";
import type { Environment } from "./command.ts";

export const DEFAULT_DATA_DIR = "/var/lib/patchbay";

export function readEnvironment(): Environment {
  const kubeconfig = process.env["KUBECONFIG"];
  const home = process.env["HOME"];
  const [, script] = process.argv;
  return {
    ...(kubeconfig !== undefined && kubeconfig !== "" && { kubeconfig }),
    ...(home !== undefined && home !== "" && { home }),
    ...(process.env["KUBERNETES_SERVICE_HOST"] !== undefined && { isPod: true }),
    ...(script !== undefined && { program: [process.execPath, script] }),
  };
}

export function readVersion(): string {
  const text = readFileSync(new URL("../package.json", import.meta.url), "utf8");
  const manifest = JSON.parse(text) as { readonly version: string }; // The cast is safe, because the file is this package's own manifest.
  return manifest.version;
}
