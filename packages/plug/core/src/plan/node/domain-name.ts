// SPDX-License-Identifier: Apache-2.0
// What the domain of a VMI is called, and which machine it is to its guest.
import type { VirtualMachineInstance } from "@patchbay/api";
import { sha256Hex } from "../../iface/sha256.ts";

/** Name of the domain. Source: KubeVirt api.VMINamespaceKeyFunc. */
export function domainNameOf(vmi: VirtualMachineInstance): string {
  return `${vmi.metadata.namespace ?? ""}_${vmi.metadata.name}`;
}

/** As libvirt reads one. */
const UUID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/**
 * The machine's UUID, the same at every start: the one that the VM asks for, else a version 8 UUID of its name.
 * Source: RFC 9562 section 5.8.
 */
export function machineUuidOf(vmi: VirtualMachineInstance): string {
  const asked = vmi.spec.domain.firmware?.uuid ?? "";
  if (UUID.test(asked)) return asked.toLowerCase();
  const hex = sha256Hex(domainNameOf(vmi));
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `8${hex.slice(13, 16)}`,
    `8${hex.slice(17, 20)}`,
    hex.slice(20, 32),
  ].join("-");
}
