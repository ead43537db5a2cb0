// SPDX-License-Identifier: Apache-2.0
// Asks hooks for cloud-init's data. Its disk was made before they ran: who leaves it as it is was asked, as it wants to be, and
// who would change it keeps the guest from starting, which would be another one.
import type { VirtualMachineInstance } from "@patchbay/api";
import {
  AppError,
  cloudInitChanges,
  hookedCloudInitOf,
  type HookedCloudInit,
  type Subscription,
} from "@patchbay/core";
import type { HookSidecar } from "@patchbay/core/ports";

const CALL = "PreCloudInitIso";
const INSTEAD = "its disk is made before hooks run: write it in the VM";

function decode(base64: string): string {
  return Buffer.from(base64, "base64").toString("utf8");
}

async function askOne(
  given: HookedCloudInit,
  { hook, version }: Subscription,
  { vmi, sidecar }: { readonly vmi: string; readonly sidecar: HookSidecar },
): Promise<void> {
  const { UserData: userData, NetworkData: networkData } = given;
  const answer = await sidecar.preCloudInitIso({
    ...{ version, vmi, data: JSON.stringify(given) },
    noCloudSource: JSON.stringify({ userData, networkData }),
  });
  const changes = cloudInitChanges(given, answer);
  if (changes?.length === 0) return;
  const reason =
    changes === undefined
      ? "it is no data of cloud-init's"
      : `a hook cannot change ${changes.join(", ")} of volume ${given.VolumeName}: ${INSTEAD}`;
  throw new AppError("HOOK_ANSWER_REFUSED", { hook, call: CALL, reason });
}

/**
 * Asks those that want to be asked of each disk of cloud-init's, in their order.
 * @throws AppError with HOOK_ANSWER_REFUSED for one that would change it, HOOK_FAILED where a Secret says what is in it
 */
export async function askCloudInit(
  vmi: VirtualMachineInstance,
  subscriptions: readonly Subscription[],
  sidecars: ReadonlyMap<string, HookSidecar>,
): Promise<void> {
  const text = JSON.stringify(vmi);
  for (const given of hookedCloudInitOf(vmi, decode)) {
    for (const subscription of subscriptions) {
      const { container, hook } = subscription;
      if (given === undefined) {
        const reason = `a Secret says cloud-init's data, which no node reads; ${INSTEAD}, or use a hook without that point`;
        throw new AppError("HOOK_FAILED", { hook, call: CALL, reason });
      }
      const sidecar = sidecars.get(container);
      if (sidecar !== undefined) await askOne(given, subscription, { vmi: text, sidecar });
    }
  }
}
