// SPDX-License-Identifier: Apache-2.0
// The data directory of the machine that a kubeconfig leads to.
import { dirname, join, resolve } from "node:path";
import { loadKubeConfig } from "@patchbay/kube";
import type { Files } from "@patchbay/core/ports";

async function serverIn(kubeconfig: string): Promise<string | undefined> {
  try {
    return (await loadKubeConfig({ kubeconfig })).server;
  } catch {
    return undefined;
  }
}

/** What identifies the machine. */
export interface MachineHints {
  /** The kubeconfig in use. */
  readonly kubeconfig: string;
  /** The API server that it names. */
  readonly server: string;
  /** `--data-dir` or its default. */
  readonly dataDir: string;
}

/** The kubeconfig's own directory or `dataDir`, if that holds a machine with this API server; undefined: neither does. */
export async function findMachineDir(
  files: Pick<Files, "exists">,
  { kubeconfig, server, dataDir }: MachineHints,
): Promise<string | undefined> {
  for (const directory of [dirname(resolve(kubeconfig)), resolve(dataDir)]) {
    const isMachine = await files.exists(join(directory, "run"));
    if (isMachine && (await serverIn(join(directory, "kubeconfig"))) === server) return directory;
  }
  return undefined;
}
