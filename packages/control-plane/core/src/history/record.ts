// SPDX-License-Identifier: Apache-2.0
import type { IfaceHistory, IfaceOperation } from "@patchbay/api";

export const OPERATIONS_MAX = 10;
export const HISTORY_BYTES_MAX = 32 * 1024;

export interface OperationEvent {
  readonly name: string;
  readonly operation: IfaceOperation;
}

function isSameOperation(left: IfaceOperation, right: IfaceOperation): boolean {
  return left.type === right.type && left.startTimestamp === right.startTimestamp;
}

function hasOutcome({ outcome }: IfaceOperation): boolean {
  return outcome !== undefined;
}

function withOperation(
  operations: readonly IfaceOperation[],
  operation: IfaceOperation,
): IfaceOperation[] {
  const isKnown = operations.some((existing) => isSameOperation(existing, operation));
  if (!isKnown) return [...operations, operation].slice(-OPERATIONS_MAX);
  return operations.map((existing) =>
    isSameOperation(existing, operation) && !hasOutcome(existing) ? operation : existing,
  );
}

function withEvent(history: IfaceHistory, { name, operation }: OperationEvent): IfaceHistory {
  if (!history.some((entry) => entry.name === name)) {
    return [...history, { name, operations: [operation] }];
  }
  return history.map((entry) =>
    entry.name === name ? { name, operations: withOperation(entry.operations, operation) } : entry,
  );
}

/** Returns an upper bound for the size of `value` as JSON, in bytes. Counts each character beyond printable ASCII as 3 or 4 bytes. */
function countBytes(value: unknown): number {
  const text = JSON.stringify(value);
  return text.length + 2 * (text.match(/[^ -~]/gu) ?? []).length;
}

interface Droppable extends OperationEvent {
  readonly isLast: boolean;
  readonly bytes: number;
}

/** Sorts operations in the order in which they are dropped, oldest first. The newest operation of each interface comes after all others. */
function compareDropOrder(left: Droppable, right: Droppable): number {
  if (left.isLast !== right.isLast) return left.isLast ? 1 : -1;
  const [leftStart, rightStart] = [left.operation.startTimestamp, right.operation.startTimestamp];
  return leftStart < rightStart ? -1 : Number(leftStart > rightStart);
}

function listDroppable({ name, operations }: IfaceHistory[number]): readonly Droppable[] {
  // Each size includes the interface's entry and a comma, so the sum of the sizes is at least the size of the history.
  const overheadBytes = countBytes({ name, operations: [] }) + 1;
  return operations.map((operation, index) => ({
    name,
    operation,
    isLast: index === operations.length - 1,
    bytes: countBytes(operation) + overheadBytes,
  }));
}

function limitHistory(history: IfaceHistory): IfaceHistory {
  const droppable = history.flatMap(listDroppable).toSorted(compareDropOrder);
  let bytes = droppable.reduce((sum, candidate) => sum + candidate.bytes, 0);
  const dropped = new Set<IfaceOperation>();
  for (const candidate of droppable) {
    if (bytes <= HISTORY_BYTES_MAX) break;
    bytes -= candidate.bytes;
    dropped.add(candidate.operation);
  }
  return history
    .map(({ name, operations }) => ({
      name,
      operations: operations.filter((operation) => !dropped.has(operation)),
    }))
    .filter(({ operations }) => operations.length > 0);
}

/**
 * Adds an operation, or updates the active operation with the same type and start time. Drops operations beyond
 * {@link OPERATIONS_MAX} per interface and {@link HISTORY_BYTES_MAX} in total.
 */
export function recordOperation(history: IfaceHistory, event: OperationEvent): IfaceHistory {
  return limitHistory(withEvent(history, event));
}

export function mergeHistory(
  storedHistory: IfaceHistory,
  reportedHistory: IfaceHistory,
): IfaceHistory {
  const events = reportedHistory.flatMap(({ name, operations }) =>
    operations.map((operation) => ({ name, operation })),
  );
  return limitHistory(events.reduce(withEvent, storedHistory));
}

/** Sets the outcome GuestEnded in all operations without an outcome. Omit `endTimestamp` if the time of the guest's end is unknown. */
export function endHistory(history: IfaceHistory, endTimestamp?: string): IfaceHistory {
  const endField = endTimestamp === undefined ? {} : { endTimestamp };
  return history.map(({ name, operations }) => ({
    name,
    operations: operations.map((operation) =>
      hasOutcome(operation) ? operation : { ...operation, ...endField, outcome: "GuestEnded" },
    ),
  }));
}
