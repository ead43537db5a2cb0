// SPDX-License-Identifier: Apache-2.0
// What firmware and TPM of a guest write for themselves, and where that is kept.
import type { VirtualMachineInstance, VmiSpec } from "@patchbay/api";
import { hasEfi, tpmOf } from "./guest-devices.ts";

/** Whether the guest has firmware or a TPM that writes. */
export function hasState(spec: VmiSpec): boolean {
  return hasEfi(spec) || tpmOf(spec) !== undefined;
}

/**
 * The claim that keeps it over restarts; undefined: it ends with the VMI. Source: KubeVirt persistent-state-for-, where a
 * VMI has the name of its VM.
 */
export function stateClaimNameOf({ metadata, spec }: VirtualMachineInstance): string | undefined {
  const isKept =
    spec.domain.firmware?.bootloader?.efi?.persistent === true || tpmOf(spec)?.persistent === true;
  return isKept ? `persistent-state-for-${metadata.name}` : undefined;
}
