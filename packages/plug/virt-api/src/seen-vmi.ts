// SPDX-License-Identifier: Apache-2.0
// What of a VMI's status do requests and admission look at? The rest, which only others read, is not kept.
import type { IfaceStatus, VirtualMachineInstance, VmiStatus } from "@patchbay/api";
import { LIVE_MIGRATABLE } from "@patchbay/core";

function seenIface({ name, pciAddress }: IfaceStatus): IfaceStatus {
  return { ...(name !== undefined && { name }), ...(pciAddress !== undefined && { pciAddress }) };
}

/** Whose guest it is, and whether it can leave. */
function seenMigration({
  nodeName,
  evacuationNodeName,
  migrationState,
  conditions = [],
}: VmiStatus): VmiStatus {
  const told = conditions.filter(({ type }) => type === LIVE_MIGRATABLE);
  return {
    ...(nodeName !== undefined && { nodeName }),
    ...(evacuationNodeName !== undefined && { evacuationNodeName }),
    ...(migrationState !== undefined && { migrationState }),
    ...(told.length > 0 && { conditions: told }),
  };
}

/** The VMI, of its status only whether and where it runs, and which devices and ports it has. */
export function seenVmi({ status, ...vmi }: VirtualMachineInstance): VirtualMachineInstance {
  if (status === undefined) return vmi;
  const { phase, pciePorts, attachments, interfaces } = status;
  return {
    ...vmi,
    status: {
      ...(phase !== undefined && { phase }),
      ...seenMigration(status),
      ...(pciePorts !== undefined && { pciePorts }),
      ...(attachments !== undefined && { attachments }),
      ...(interfaces !== undefined && { interfaces: interfaces.map(seenIface) }),
    },
  };
}
