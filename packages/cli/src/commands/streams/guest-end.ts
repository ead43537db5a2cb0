// SPDX-License-Identifier: Apache-2.0
// Detects the end of a running guest.
import { isVmiFinal, VIRTUAL_MACHINE_INSTANCES, type VirtualMachineInstance } from "@patchbay/api";
import { AppError } from "@patchbay/base";
import type { Reflection } from "@patchbay/kube";
import type { Session, Target } from "../../session.ts";

/** Signal that is aborted when the guest ends. Its reason is an AppError with LAUNCHER_UNREACHABLE. */
export interface GuestEnd {
  readonly signal: AbortSignal;
  close(): void;
}

export function hasEnded(
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
