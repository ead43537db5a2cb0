// SPDX-License-Identifier: Apache-2.0
// Opens streams of a VM's guest through the API server: console, screen, port or captured packets. Detects the end of the guest.
import type { Duplex } from "node:stream";
import { isVmiFinal, VIRTUAL_MACHINE_INSTANCES, type VirtualMachineInstance } from "@patchbay/api";
import { AppError } from "@patchbay/base";
import { PRESERVE_SESSION, STREAM_PROTOCOL } from "@patchbay/core/guest";
import type { Reflection } from "@patchbay/kube";
import { type Session, subresourcePath, type Target } from "../../session.ts";

interface StreamOptions {
  readonly subresource: readonly string[];
  readonly takesOver?: boolean;
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

/** Signal that is aborted when the guest ends. Its reason is an AppError with LAUNCHER_UNREACHABLE. */
export interface GuestEnd {
  readonly signal: AbortSignal;
  close(): void;
}

function hasEnded(
  reflection: Reflection<VirtualMachineInstance>,
  uid: string | undefined,
): boolean {
  if (reflection.kind === "removed") return true;
  const vmi = reflection.kind === "listed" ? reflection.objects[0] : reflection.object;
  return vmi === undefined || vmi.metadata.uid !== uid || isVmiFinal(vmi);
}

/** Watches the guest that runs now. If the VM restarts with a new guest, the watched guest counts as ended. */
export function followGuestEnd({ client }: Session, target: Target): GuestEnd {
  const { kind, namespace, name, vmi } = target;
  const ended = new AbortController();
  const selection = { namespace, fieldSelector: `metadata.name=${name}` };
  const subscription = client
    .reflect(VIRTUAL_MACHINE_INSTANCES, selection)
    .subscribe((reflection) => {
      if (!hasEnded(reflection, vmi?.metadata.uid)) return;
      const details = { vmi: `${kind} ${namespace}/${name}`, reason: "it has stopped" };
      ended.abort(new AppError("LAUNCHER_UNREACHABLE", details));
    });
  return {
    signal: ended.signal,
    close: () => {
      subscription.unsubscribe();
    },
  };
}
