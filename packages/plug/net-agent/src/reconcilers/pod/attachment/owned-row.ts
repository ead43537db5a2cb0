// SPDX-License-Identifier: Apache-2.0
// A row of the journal as decisions see it: which attachment it is, of which sandbox, and what its result says.
import type { NetworkStatus } from "@patchbay/api";
import {
  defaultNetworkStatusesOf,
  deviceIn,
  networkStatusesOf,
  networkStatusOf,
  type JournalRow,
} from "@patchbay/cni";
import {
  isExtraInterfaceName,
  type HeldDevice,
  type OwnedAttachment,
  type ToldAttachment,
} from "@patchbay/core";
import type { Sandbox } from "@patchbay/core/ports";

/** An attachment of ours, with the row that is the recipe of its removal. */
export interface OwnedRow extends OwnedAttachment, ToldAttachment {
  readonly row: JournalRow;
  readonly hasDevice: boolean;
}

/**
 * Those of a secondary network. virt-controller waits for the entry of a network that a binding brings, whose name is ours and
 * not one of KubeVirt's ordinal names, so that network has one even if it makes no interface.
 */
function secondaryEntriesOf(
  { network, request: { interfaceName }, defaultRoute }: JournalRow,
  result: NonNullable<JournalRow["result"]>,
): readonly NetworkStatus[] {
  const { gateways = [] } = defaultRoute ?? {};
  const entries = networkStatusesOf(result, network, interfaceName, { gateways });
  const isAwaited = entries.length === 0 && isExtraInterfaceName(interfaceName);
  return isAwaited ? [networkStatusOf(result, network, interfaceName)] : entries;
}

/** What its result says of its NICs; nothing until ADD has succeeded. */
export function entriesOf(row: JournalRow): readonly NetworkStatus[] {
  const { result, network, request, deviceInfo } = row;
  if (result === undefined) return [];
  const { interfaceName } = request;
  const entries =
    row.isDefault === true
      ? defaultNetworkStatusesOf(result, network, interfaceName)
      : secondaryEntriesOf(row, result);
  if (deviceInfo === undefined) return entries;
  return entries.map((entry) =>
    entry.interface === interfaceName ? { ...entry, "device-info": deviceInfo } : entry,
  );
}

/** The device of a row; of what the pod's runtime has made its configuration tells. */
export function deviceOfRow({ device, request }: JournalRow): HeldDevice | undefined {
  const holder = request.interfaceName;
  if (device?.id !== undefined) {
    const { id, resource } = device;
    return { id, holder, ...(resource !== undefined && { resource }) };
  }
  const id = deviceIn(request.config);
  return id === undefined ? undefined : { id, holder };
}

/**
 * The rows that a pass decides on. A default network goes by the runtime's call, before its sandbox does; the call never
 * comes where the runtime has forgotten the sandbox, so that the agent takes it away where nothing of the pod is left.
 */
export function rowsOfPass(
  rows: readonly JournalRow[],
  isNothingLeft: boolean,
): readonly JournalRow[] {
  return isNothingLeft ? rows : rows.filter(({ isDefault }) => isDefault !== true);
}

/** Where the pod lives now; while the runtime is silent it is taken to live where it did. */
interface Now {
  readonly sandbox?: Sandbox | undefined;
  readonly silence?: unknown;
  /** Of the machine. */
  readonly bootId: string;
}

/** What was begun in another boot or namespace. */
function isStale(row: JournalRow, { sandbox, silence, bootId }: Now): boolean {
  if (silence !== undefined) return false;
  return (
    row.bootId !== bootId ||
    row.request.containerId !== sandbox?.id ||
    row.netnsInode !== sandbox.netnsInode
  );
}

/** As decisions see it: what is stale can only be undone. */
export function toOwned(row: JournalRow, now: Now): OwnedRow {
  return {
    row,
    network: row.network,
    interfaceName: row.request.interfaceName,
    state: row.state,
    isStale: isStale(row, now),
    isAdopted: row.isAdopted === true,
    hasDevice: deviceOfRow(row) !== undefined,
    entries: entriesOf(row),
    ...(row.selection !== undefined && { asked: row.selection }),
  };
}
