// SPDX-License-Identifier: Apache-2.0
// Converts journal rows to inputs of attachment plans.
import type { NetworkStatus } from "@patchbay/api/annotations";
import {
  buildDefaultNetworkStatuses,
  findDeviceId,
  buildNetworkStatuses,
  findNetworkStatus,
  type JournalRow,
} from "@patchbay/cni";
import {
  isOwnPodInterfaceName,
  type UsedDevice,
  type OwnedAttachment,
  type ReportedAttachment,
} from "@patchbay/core/nics";
import type { Sandbox } from "@patchbay/core/interfaces";

/** An attachment of this agent, with the journal row that is needed to detach it. */
export interface OwnedRow extends OwnedAttachment, ReportedAttachment {
  readonly row: JournalRow;
  readonly hasDevice: boolean;
}

/**
 * Builds a network's status entries. If the result has no NIC, but Patchbay generated the row's interface name, returns one entry, because
 * virt-controller waits for an entry with this name.
 */
function buildSecondaryEntries(
  { network, request: { interfaceName }, defaultRoute }: JournalRow,
  result: NonNullable<JournalRow["result"]>,
): readonly NetworkStatus[] {
  const { gateways = [] } = defaultRoute ?? {};
  const entries = buildNetworkStatuses(result, network, interfaceName, { gateways });
  const isAwaited = entries.length === 0 && isOwnPodInterfaceName(interfaceName);
  return isAwaited ? [findNetworkStatus(result, network, interfaceName)] : entries;
}

export function buildStatusEntries(row: JournalRow): readonly NetworkStatus[] {
  const { result, network, request, deviceInfo } = row;
  if (result === undefined) return [];
  const { interfaceName } = request;
  const entries =
    row.isDefault === true
      ? buildDefaultNetworkStatuses(result, network, interfaceName)
      : buildSecondaryEntries(row, result);
  if (deviceInfo === undefined) return entries;
  return entries.map((entry) =>
    entry.interface === interfaceName ? { ...entry, "device-info": deviceInfo } : entry,
  );
}

/** Returns the device of a row. If the row has none, as after an adoption, reads the device from the configuration. */
export function readDevice({ device, request }: JournalRow): UsedDevice | undefined {
  const holder = request.interfaceName;
  if (device?.id !== undefined) {
    const { id, resource } = device;
    return { id, holder, ...(resource !== undefined && { resource }) };
  }
  const id = findDeviceId(request.config);
  return id === undefined ? undefined : { id, holder };
}

/** Returns the rows that net-agent detaches. Omits the default network's row while the pod or its sandbox exists. */
export function selectRows(
  rows: readonly JournalRow[],
  isNothingLeft: boolean,
): readonly JournalRow[] {
  return isNothingLeft ? rows : rows.filter(({ isDefault }) => isDefault !== true);
}

/** Sandbox and boot with which rows are compared. A row of another sandbox or boot is stale, unless the runtime is unavailable. */
interface CurrentPod {
  readonly sandbox?: Sandbox | undefined;
  readonly runtimeUnavailable?: unknown;
  readonly bootId: string;
}

function isStale(row: JournalRow, { sandbox, runtimeUnavailable, bootId }: CurrentPod): boolean {
  if (runtimeUnavailable !== undefined) return false;
  return (
    row.bootId !== bootId ||
    row.request.containerId !== sandbox?.id ||
    row.netnsInode !== sandbox.netnsInode
  );
}

export function toOwned(row: JournalRow, current: CurrentPod): OwnedRow {
  return {
    row,
    network: row.network,
    interfaceName: row.request.interfaceName,
    state: row.state,
    isStale: isStale(row, current),
    isAdopted: row.isAdopted === true,
    hasDevice: readDevice(row) !== undefined,
    entries: buildStatusEntries(row),
    ...(row.selection !== undefined && { recordedElement: row.selection }),
  };
}
