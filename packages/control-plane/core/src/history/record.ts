// SPDX-License-Identifier: Apache-2.0
import type { IfaceHistory, IfaceOperation } from "@patchbay/api";

export const OPERATIONS_MAX = 10;
/** Longest history as JSON, in bytes: a small part of the largest Kubernetes object. */
export const HISTORY_BYTES_MAX = 32 * 1024;

export interface OperationEvent {
  readonly name: string;
  readonly operation: IfaceOperation;
}

function isSameOperation(left: IfaceOperation, right: IfaceOperation): boolean {
  return left.type === right.type && left.startTimestamp === right.startTimestamp;
}

/** Whether the operation has ended. Later reports do not change it. */
function isOver({ outcome }: IfaceOperation): boolean {
  return outcome !== undefined;
}

function withOperation(
  operations: readonly IfaceOperation[],
  operation: IfaceOperation,
): IfaceOperation[] {
  const known = operations.some((each) => isSameOperation(each, operation));
  if (!known) return [...operations, operation].slice(-OPERATIONS_MAX);
  return operations.map((each) =>
    isSameOperation(each, operation) && !isOver(each) ? operation : each,
  );
}

function withEvent(history: IfaceHistory, { name, operation }: OperationEvent): IfaceHistory {
  if (!history.some((each) => each.name === name)) {
    return [...history, { name, operations: [operation] }];
  }
  return history.map((each) =>
    each.name === name ? { name, operations: withOperation(each.operations, operation) } : each,
  );
}

/** Returns an upper bound of the JSON's size in bytes. A character beyond ASCII counts as three or four bytes. */
function countBytes(value: unknown): number {
  const text = JSON.stringify(value);
  return text.length + 2 * (text.match(/[^ -~]/gu) ?? []).length;
}

interface Droppable extends OperationEvent {
  readonly isLast: boolean;
  readonly bytes: number;
}

/** Sorts the oldest operations first, and each interface's last operation after all others. */
function compareDropOrder(left: Droppable, right: Droppable): number {
  if (left.isLast !== right.isLast) return left.isLast ? 1 : -1;
  const [one, other] = [left.operation.startTimestamp, right.operation.startTimestamp];
  return one < other ? -1 : Number(one > other);
}

function listDroppable({ name, operations }: IfaceHistory[number]): readonly Droppable[] {
  // Each operation counts with a comma and its interface's entry, so the sum is an upper bound.
  const around = countBytes({ name, operations: [] }) + 1;
  return operations.map((operation, index) => ({
    name,
    operation,
    isLast: index === operations.length - 1,
    bytes: countBytes(operation) + around,
  }));
}

function limitHistory(history: IfaceHistory): IfaceHistory {
  const all = history.flatMap(listDroppable).toSorted(compareDropOrder);
  let bytes = all.reduce((sum, each) => sum + each.bytes, 0);
  const dropped = new Set<IfaceOperation>();
  for (const each of all) {
    if (bytes <= HISTORY_BYTES_MAX) break;
    bytes -= each.bytes;
    dropped.add(each.operation);
  }
  return history
    .map(({ name, operations }) => ({
      name,
      operations: operations.filter((o) => !dropped.has(o)),
    }))
    .filter(({ operations }) => operations.length > 0);
}

/**
 * Adds or updates one operation, identified by type and start time. Ended operations never change. Retains at most
 * {@link OPERATIONS_MAX} operations of each interface, and {@link HISTORY_BYTES_MAX} in total.
 */
export function recordOperation(history: IfaceHistory, event: OperationEvent): IfaceHistory {
  return limitHistory(withEvent(history, event));
}

export function mergeHistory(retained: IfaceHistory, reported: IfaceHistory): IfaceHistory {
  const events = reported.flatMap(({ name, operations }) =>
    operations.map((operation) => ({ name, operation })),
  );
  return limitHistory(events.reduce(withEvent, retained));
}

/** Marks all active operations as ended with the guest. Without `endTimestamp` the time is unknown. */
export function endHistory(history: IfaceHistory, endTimestamp?: string): IfaceHistory {
  const end = endTimestamp === undefined ? {} : { endTimestamp };
  return history.map(({ name, operations }) => ({
    name,
    operations: operations.map((operation) =>
      isOver(operation) ? operation : { ...operation, ...end, outcome: "GuestEnded" },
    ),
  }));
}
