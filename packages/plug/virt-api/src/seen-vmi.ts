// SPDX-License-Identifier: Apache-2.0
// What of a VMI's status do requests and admission look at? The rest, which only others read, is not kept.
import type { IfaceStatus, VirtualMachineInstance } from "@patchbay/api";

function seenIface({ name, pciAddress }: IfaceStatus): IfaceStatus {
  return { ...(name !== undefined && { name }), ...(pciAddress !== undefined && { pciAddress }) };
}

/** The VMI, of its status only whether it runs, and which devices and ports it has. */
export function seenVmi({ status, ...vmi }: VirtualMachineInstance): VirtualMachineInstance {
  if (status === undefined) return vmi;
  const { phase, pciePorts, attachments, interfaces } = status;
  return {
    ...vmi,
    status: {
      ...(phase !== undefined && { phase }),
      ...(pciePorts !== undefined && { pciePorts }),
      ...(attachments !== undefined && { attachments }),
      ...(interfaces !== undefined && { interfaces: interfaces.map(seenIface) }),
    },
  };
}
