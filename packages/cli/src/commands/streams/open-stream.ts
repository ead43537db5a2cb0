// SPDX-License-Identifier: Apache-2.0
// Opens streams of a VM's guest through the API server: console, screen, port or captured packets.
import type { Duplex } from "node:stream";
import { isVmiFinal } from "@patchbay/api";
import { AppError } from "@patchbay/base";
import { PRESERVE_SESSION, STREAM_PROTOCOL } from "@patchbay/core/guest";
import { type Session, subresourcePath, type Target } from "../../session.ts";

interface StreamOptions {
  readonly subresource: readonly string[];
  readonly takesOver?: boolean;
  /** Additional query parameters of the URL. */
  readonly query?: string;
}

/** @throws AppError with LAUNCHER_UNREACHABLE if the VM does not run */
export function assertRunning({ kind, namespace, name, vmi }: Target): void {
  if (vmi !== undefined && !isVmiFinal(vmi)) return;
  const start =
    kind === "virtualmachine" ? `; start it: patchbay start ${name} -n ${namespace}` : "";
  const reason = `it is not running${start}`;
  throw new AppError("LAUNCHER_UNREACHABLE", { vmi: `${kind} ${namespace}/${name}`, reason });
}

/**
 * Opens a stream. If another client uses the console or screen, `takesOver` disconnects that client; otherwise, the server
 * rejects the request. `query` is ignored if `takesOver` is false.
 * @throws AppError with LAUNCHER_UNREACHABLE
 */
export async function openStream(
  { client }: Session,
  target: Target,
  { subresource, takesOver = true, query = "" }: StreamOptions,
): Promise<Duplex> {
  assertRunning(target);
  const path = subresourcePath({ ...target, kind: "virtualmachineinstance" }, ...subresource);
  const fullQuery = takesOver ? query : `${PRESERVE_SESSION}=true`;
  return client.openStream({
    path: fullQuery === "" ? path : `${path}?${fullQuery}`,
    protocol: STREAM_PROTOCOL,
  });
}
