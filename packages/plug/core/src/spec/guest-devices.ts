// SPDX-License-Identifier: Apache-2.0
// Which devices beside disks and NICs a specification asks for, with KubeVirt's defaults filled in.
import type { VmiSpec, VirtualMachineInstance } from "@patchbay/api";

type Devices = NonNullable<VmiSpec["domain"]["devices"]>;

/** A tablet, which a pointer's place is told by. */
interface GuestInput {
  readonly bus: "usb" | "virtio";
}

/** Source: KubeVirt SetDefaults_Input. */
function busOf(bus: string | undefined): GuestInput["bus"] {
  return bus === "virtio" ? "virtio" : "usb";
}

/** The input devices, in the order of the list; one where none is declared and one is to be there anyway. */
export function inputsOf({ domain }: VmiSpec): readonly GuestInput[] {
  const { inputs = [], autoattachInputDevice } = domain.devices ?? {};
  if (inputs.length === 0) return autoattachInputDevice === true ? [{ bus: "usb" }] : [];
  return inputs.map(({ bus }) => ({ bus: busOf(bus) }));
}

/** Whether the guest has a screen; `byDefault`: where nothing is said. Source: KubeVirt, where it has. */
export function hasDisplay({ domain }: VmiSpec, byDefault: boolean): boolean {
  return domain.devices?.autoattachGraphicsDevice ?? byDefault;
}

/** Whether the guest has a serial console. */
export function hasConsole({ domain }: VmiSpec): boolean {
  return domain.devices?.autoattachSerialConsole !== false;
}

/** The TPM; undefined: the guest has none. */
export function tpmOf({ domain }: VmiSpec): Devices["tpm"] {
  const tpm = domain.devices?.tpm;
  return tpm?.enabled === false ? undefined : tpm;
}

/** Whether the guest boots by EFI. */
export function hasEfi({ domain }: VmiSpec): boolean {
  return domain.firmware?.bootloader?.efi !== undefined;
}

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
