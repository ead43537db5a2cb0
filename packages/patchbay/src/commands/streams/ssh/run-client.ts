// SPDX-License-Identifier: Apache-2.0
// Runs a local program in place of this one.
import { loadKubeConfig } from "@patchbay/kube";
import { createFiles, runInForeground } from "@patchbay/os";
import type { Context } from "../../../command.ts";
import { ProgramEnded } from "../../../program-ended.ts";
import { chooseKubeConfig } from "../../../session.ts";
import type { Here } from "./ssh-client.ts";

/** This program, the connection that it would use, and the namespace. */
export async function hereOf(context: Context): Promise<Here> {
  const { global, environment } = context;
  const kubeconfig = await chooseKubeConfig(context, createFiles());
  const { namespace = "default" } = await loadKubeConfig({ kubeconfig });
  return {
    program: environment.program ?? ["patchbay"],
    global: { ...global, kubeconfig },
    namespace: global.namespace ?? namespace,
  };
}

/**
 * @throws ProgramEnded unless it ended well
 * @throws AppError with OS_PROGRAM_MISSING
 */
export async function runClient(argv: readonly [string, ...string[]]): Promise<void> {
  const code = await runInForeground(argv);
  if (code !== 0) throw new ProgramEnded(code);
}
