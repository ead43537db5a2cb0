// SPDX-License-Identifier: Apache-2.0
// Connection to the API server, and the namespace of a command.
import { join } from "node:path";
import { AppError, type Clock, type Logger } from "@patchbay/base";
import { createKubeClient, loadKubeConfig, type KubeClient, type KubeConfig } from "@patchbay/kube";
import { createClock, createFiles } from "@patchbay/os";
import type { Files } from "@patchbay/core/interfaces";
import type { Context, Output } from "./command.ts";
import { oneLine } from "./print/safe.ts";

export interface Session {
  readonly client: KubeClient;
  readonly config: KubeConfig;
  readonly clock: Clock;
  readonly namespace: string;
}

/** A logger that prints warnings for people and drops everything else. */
export function warnTo(err: Output): Logger {
  const ignore = (): void => undefined;
  const warn: Logger["warn"] = (message, fields) => {
    const reason = fields?.["reason"];
    err.write(
      `warning: ${oneLine(typeof reason === "string" ? `${message}: ${reason}` : message)}\n`,
    );
  };
  return { debug: ignore, info: ignore, warn, error: warn, child: () => warnTo(err) };
}

async function findExisting(files: Files, paths: readonly string[]): Promise<string | undefined> {
  for (const path of paths) {
    if (await files.exists(path)) return path;
  }
  return undefined;
}

/** The flag's kubeconfig, or the first of $KUBECONFIG, data directory and home. @throws AppError with KUBE_CONFIG_INVALID */
export async function chooseKubeConfig(
  context: Pick<Context, "global" | "environment">,
  files: Files,
): Promise<string> {
  const { global, environment } = context;
  if (global.kubeconfig !== undefined) return global.kubeconfig;
  const candidates = [
    ...(environment.kubeconfig?.split(":").filter((path) => path !== "") ?? []),
    join(global.dataDir, "kubeconfig"),
    ...(environment.home === undefined ? [] : [join(environment.home, ".kube", "config")]),
  ];
  const found = await findExisting(files, candidates);
  if (found !== undefined) return found;
  throw new AppError("KUBE_CONFIG_INVALID", {
    path: candidates.join(", "),
    reason: "there is no such file",
  });
}

/** Calls `use` with a connection and closes it afterwards. */
export async function withSession(
  context: Context,
  use: (session: Session) => Promise<void>,
): Promise<void> {
  const kubeconfig = await chooseKubeConfig(context, createFiles());
  const config = await loadKubeConfig({ kubeconfig });
  const clock = createClock();
  const client = createKubeClient(config, { logger: warnTo(context.err), clock });
  const namespace = context.global.namespace ?? config.namespace ?? "default";
  try {
    await use({ client, config, clock, namespace });
  } finally {
    await client.close();
  }
}
