// SPDX-License-Identifier: Apache-2.0
// Devices other than disks and NICs, with KubeVirt's defaults applied.
import type { VmiSpec, VirtualMachineInstance } from "@patchbay/api";

export function findOneOf<T extends string>(
  values: readonly T[],
  value: string | undefined,
): T | undefined {
  return values.find((candidate) => candidate === value);
}

type Devices = NonNullable<VmiSpec["domain"]["devices"]>;

interface GuestInput {
  readonly bus: "usb" | "virtio";
}

/** Parses the bus. The default is USB. Source: KubeVirt SetDefaults_Input. */
function parseInputBus(bus: string | undefined): GuestInput["bus"] {
  return bus === "virtio" ? "virtio" : "usb";
}

export function listInputs({ domain }: VmiSpec): readonly GuestInput[] {
  const { inputs = [], autoattachInputDevice } = domain.devices ?? {};
  if (inputs.length === 0) return autoattachInputDevice === true ? [{ bus: "usb" }] : [];
  return inputs.map(({ bus }) => ({ bus: parseInputBus(bus) }));
}

export function hasDisplay({ domain }: VmiSpec, byDefault: boolean): boolean {
  return domain.devices?.autoattachGraphicsDevice ?? byDefault;
}

export function hasConsole({ domain }: VmiSpec): boolean {
  return domain.devices?.autoattachSerialConsole !== false;
}

export function findTpm({ domain }: VmiSpec): Devices["tpm"] {
  const tpm = domain.devices?.tpm;
  return tpm?.enabled === false ? undefined : tpm;
}

export function hasEfi({ domain }: VmiSpec): boolean {
  return domain.firmware?.bootloader?.efi !== undefined;
}

export function hasState(spec: VmiSpec): boolean {
  return hasEfi(spec) || findTpm(spec) !== undefined;
}

/** Returns the name of the claim for firmware and TPM state; undefined if the state is not persistent. Source: KubeVirt. */
export function buildStateClaimName({
  metadata,
  spec,
}: VirtualMachineInstance): string | undefined {
  const isPersistent =
    spec.domain.firmware?.bootloader?.efi?.persistent === true ||
    findTpm(spec)?.persistent === true;
  return isPersistent ? `persistent-state-for-${metadata.name}` : undefined;
}
