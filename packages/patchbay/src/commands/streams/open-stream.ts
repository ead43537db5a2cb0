// SPDX-License-Identifier: Apache-2.0
// A stream of a VM's guest, from the API server: its console, its screen, a port, packets.
import type { Duplex } from "node:stream";
import { isVmiFinal } from "@patchbay/api";
import { AppError, PRESERVE_SESSION, STREAM_PROTOCOL } from "@patchbay/core";
import type { Session } from "../../session.ts";
import { subresourcePath, type Target } from "../../target.ts";

/** Which stream. */
interface StreamOptions {
  readonly what: readonly string[];
  readonly isTaken?: boolean;
  /** What is asked besides. */
  readonly query?: string;
}

/** @throws AppError with LAUNCHER_UNREACHABLE where the VM does not run */
export function assertRunning({ kind, namespace, name, vmi }: Target): void {
  if (vmi !== undefined && !isVmiFinal(vmi)) return;
  const start =
    kind === "virtualmachine" ? `; start it: patchbay start ${name} -n ${namespace}` : "";
  const reason = `it is not running${start}`;
  throw new AppError("LAUNCHER_UNREACHABLE", { vmi: `${kind} ${namespace}/${name}`, reason });
}

/**
 * Opens it. `isTaken`: whoever has the console or the screen loses it; else it is refused while somebody has it.
 * @throws AppError with LAUNCHER_UNREACHABLE where the VM does not run, and what kube's client throws
 */
export async function openStream(
  { client }: Session,
  target: Target,
  { what, isTaken = true, query = "" }: StreamOptions,
): Promise<Duplex> {
  assertRunning(target);
  const path = subresourcePath({ ...target, kind: "virtualmachineinstance" }, ...what);
  const asked = isTaken ? query : `${PRESERVE_SESSION}=true`;
  return client.openStream({
    path: asked === "" ? path : `${path}?${asked}`,
    protocol: STREAM_PROTOCOL,
  });
}
