// SPDX-License-Identifier: Apache-2.0
// Removes sockets of shims from a directory that all containerds of a host share. A socket's name is a hash of a container
// id. A file records the ids, so that the sockets of ended containers can be found.
import { createHash } from "node:crypto";
import { join } from "node:path";
import { isJsonObject, parseJson } from "@patchbay/api/json";
import { messageOf, type Logger } from "@patchbay/base";
import type { Files } from "@patchbay/core/interfaces";
import type { ContainerdLayout } from "../layout.ts";

/** Directory of the shims' sockets. Source: containerd, runtime v2 shim, SocketAddress. */
export const SHIM_SOCKETS = "/run/containerd/s";
/** Path of the containers' bundles, relative to the state directory. Source: containerd, runtime v2. */
const BUNDLES_PATH = "io.containerd.runtime.v2.task/k8s.io";
/** Suffixes of the addresses of a shim's sockets. The debug socket exists since containerd 2. */
const SOCKET_SUFFIXES = ["", "/debug"];

export interface ShimDeps {
  readonly files: Files;
  readonly layout: ContainerdLayout;
  readonly bootId: string;
}

export function shimSocketPaths({ socket }: ContainerdLayout, id: string): readonly string[] {
  return SOCKET_SUFFIXES.map((suffix) => {
    const hash = createHash("sha256").update(`${socket}/k8s.io/${id}${suffix}`).digest("hex");
    return join(SHIM_SOCKETS, hash);
  });
}

function buildBundlesDirectory({ state }: ContainerdLayout): string {
  return join(state, BUNDLES_PATH);
}

async function readRecordedIds({ files, layout, bootId }: ShimDeps): Promise<readonly string[]> {
  const record = parseJson(await files.readText(layout.shims));
  if (!isJsonObject(record) || record["bootId"] !== bootId || !Array.isArray(record["ids"]))
    return [];
  return record["ids"].filter((id): id is string => typeof id === "string");
}

async function removeSockets({ files, layout }: ShimDeps, ids: readonly string[]): Promise<void> {
  for (const path of ids.flatMap((id) => shimSocketPaths(layout, id))) await files.remove(path);
}

export async function sweepShimSockets(deps: ShimDeps): Promise<void> {
  const { files, layout, bootId } = deps;
  const recordedIds = await readRecordedIds(deps);
  const ids = await files.list(buildBundlesDirectory(layout));
  const endedIds = recordedIds.filter((id) => !ids.includes(id));
  if (endedIds.length === 0 && ids.length === recordedIds.length) return;
  await removeSockets(deps, endedIds);
  await files.writeAtomic(layout.shims, `${JSON.stringify({ bootId, ids })}\n`);
}

export async function removeShimSockets(deps: ShimDeps): Promise<void> {
  const ids = [
    ...(await readRecordedIds(deps)),
    ...(await deps.files.list(buildBundlesDirectory(deps.layout))),
  ];
  await removeSockets(deps, ids);
  await deps.files.remove(deps.layout.shims);
}

/** Removes the sockets of ended containers whenever a container starts or ends, until the signal is aborted. */
export function sweepShimSocketsOnChange(
  deps: ShimDeps & { readonly log: Logger },
  signal: AbortSignal,
): void {
  const { files, layout, log } = deps;
  let lastSweep: Promise<void> = Promise.resolve();
  const sweep = (): void => {
    lastSweep = lastSweep
      .then(() => sweepShimSockets(deps))
      .catch((error: unknown) => {
        log.warn("sockets of shims cannot be removed", { reason: messageOf(error), err: error });
      });
  };
  files.watchDirectory(buildBundlesDirectory(layout), sweep, signal);
  sweep();
}
