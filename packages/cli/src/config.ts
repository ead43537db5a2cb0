// SPDX-License-Identifier: Apache-2.0
// Environment of the process.
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
