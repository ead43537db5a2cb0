// SPDX-License-Identifier: Apache-2.0
// Which sockets of shims are ours? They lie where all containerds of a machine have theirs, and a shim that is killed leaves
// its own behind; names of containers are noted, because from them follow the names of the sockets.
import { createHash } from "node:crypto";
import { join } from "node:path";
import { isJsonObject, parseJson } from "@patchbay/api/json";
import { messageOf } from "@patchbay/core";
import type { Files, Logger } from "@patchbay/core/ports";
import type { ContainerdLayout } from "../layout.ts";

/** Source: containerd, runtime v2 shim, SocketAddress. */
export const SHIM_SOCKETS = "/run/containerd/s";
/** One directory for each running container. Source: containerd, runtime v2. */
const BUNDLES = "io.containerd.runtime.v2.task/k8s.io";
/** A second socket, of containerd 2. */
const KINDS = ["", "/debug"];

/** Files, places, and the start of the host of which notes are believed. */
export interface ShimDeps {
  readonly files: Files;
  readonly layout: ContainerdLayout;
  readonly bootId: string;
}

/** The sockets that a container's shim would have. */
export function shimSocketsOf({ socket }: ContainerdLayout, id: string): readonly string[] {
  return KINDS.map((kind) => {
    const hash = createHash("sha256").update(`${socket}/k8s.io/${id}${kind}`).digest("hex");
    return join(SHIM_SOCKETS, hash);
  });
}

function bundlesOf({ state }: ContainerdLayout): string {
  return join(state, BUNDLES);
}

async function readNoted({ files, layout, bootId }: ShimDeps): Promise<readonly string[]> {
  const noted = parseJson(await files.readText(layout.shims));
  if (!isJsonObject(noted) || noted["bootId"] !== bootId || !Array.isArray(noted["ids"])) return [];
  return noted["ids"].filter((id): id is string => typeof id === "string");
}

async function removeSockets({ files, layout }: ShimDeps, ids: readonly string[]): Promise<void> {
  for (const path of ids.flatMap((id) => shimSocketsOf(layout, id))) await files.remove(path);
}

/** Removes the sockets of containers that are gone, and notes those that are there. */
export async function sweepShimSockets(deps: ShimDeps): Promise<void> {
  const { files, layout, bootId } = deps;
  const noted = await readNoted(deps);
  const ids = await files.list(bundlesOf(layout));
  const gone = noted.filter((id) => !ids.includes(id));
  if (gone.length === 0 && ids.length === noted.length) return;
  await removeSockets(deps, gone);
  await files.writeAtomic(layout.shims, `${JSON.stringify({ bootId, ids })}\n`);
}

/** Removes the sockets of all containers that are there or were noted: none of them runs any more. */
export async function removeShimSockets(deps: ShimDeps): Promise<void> {
  const ids = [...(await readNoted(deps)), ...(await deps.files.list(bundlesOf(deps.layout)))];
  await removeSockets(deps, ids);
  await deps.files.remove(deps.layout.shims);
}

/** Sweeps at each change of the running containers until aborted. */
export function keepShimSockets(
  deps: ShimDeps & { readonly log: Logger },
  signal: AbortSignal,
): void {
  const { files, layout, log } = deps;
  let sweeping: Promise<void> = Promise.resolve();
  const sweep = (): void => {
    sweeping = sweeping
      .then(() => sweepShimSockets(deps))
      .catch((error: unknown) => {
        log.warn("sockets of shims cannot be removed", { reason: messageOf(error), err: error });
      });
  };
  files.watchDirectory(bundlesOf(layout), sweep, signal);
  sweep();
}
