// SPDX-License-Identifier: Apache-2.0
// What VMI and VM keep of the operations on NICs: which are kept, and which are forgotten first.
import type { IfaceHistory, IfaceOperation } from "@patchbay/api";

/** How many operations of one iface are kept. */
export const OPERATIONS_MAX = 10;
/** How long all of it may be as JSON, bytes: a small part of what an object may be. */
export const HISTORY_BYTES_MAX = 32 * 1024;

/** Something new about one iface: an operation has begun, goes on otherwise, or is over. */
export interface OperationEvent {
  readonly name: string;
  readonly operation: IfaceOperation;
}

function isSame(left: IfaceOperation, right: IfaceOperation): boolean {
  return left.type === right.type && left.startTimestamp === right.startTimestamp;
}

/** The first end stands: who saw less says nothing new of what is over. */
function isOver({ outcome }: IfaceOperation): boolean {
  return outcome !== undefined;
}

function withOperation(
  operations: readonly IfaceOperation[],
  operation: IfaceOperation,
): IfaceOperation[] {
  const known = operations.some((each) => isSame(each, operation));
  if (!known) return [...operations, operation].slice(-OPERATIONS_MAX);
  return operations.map((each) => (isSame(each, operation) && !isOver(each) ? operation : each));
}

function withEvent(history: IfaceHistory, { name, operation }: OperationEvent): IfaceHistory {
  if (!history.some((each) => each.name === name)) {
    return [...history, { name, operations: [operation] }];
  }
  return history.map((each) =>
    each.name === name ? { name, operations: withOperation(each.operations, operation) } : each,
  );
}

/** At least as many bytes as it has in JSON: a character beyond ASCII has four at most. */
function bytesOf(value: unknown): number {
  const text = JSON.stringify(value);
  return text.length + 2 * (text.match(/[^ -~]/gu) ?? []).length;
}

/** What may be forgotten; each one rather than those after it. */
interface Forgettable extends OperationEvent {
  readonly isLast: boolean;
  readonly bytes: number;
}

/** The last operation of each iface goes after all others, also of one that is gone; else the oldest goes first. */
function firstToGo(left: Forgettable, right: Forgettable): number {
  if (left.isLast !== right.isLast) return left.isLast ? 1 : -1;
  const [one, other] = [left.operation.startTimestamp, right.operation.startTimestamp];
  return one < other ? -1 : Number(one > other);
}

function forgettable({ name, operations }: IfaceHistory[number]): readonly Forgettable[] {
  // The comma, and what stands around the list, are counted with each.
  const around = bytesOf({ name, operations: [] }) + 1;
  return operations.map((operation, index) => ({
    name,
    operation,
    isLast: index === operations.length - 1,
    bytes: bytesOf(operation) + around,
  }));
}

/** As much as there is room for. */
function bounded(history: IfaceHistory): IfaceHistory {
  const all = history.flatMap(forgettable).toSorted(firstToGo);
  let bytes = all.reduce((sum, each) => sum + each.bytes, 0);
  const gone = new Set<IfaceOperation>();
  for (const each of all) {
    if (bytes <= HISTORY_BYTES_MAX) break;
    bytes -= each.bytes;
    gone.add(each.operation);
  }
  return history
    .map(({ name, operations }) => ({ name, operations: operations.filter((o) => !gone.has(o)) }))
    .filter(({ operations }) => operations.length > 0);
}

/**
 * The history with one thing more. An operation is known by its type and its beginning; what is over is never changed.
 * Of each iface {@link OPERATIONS_MAX} are kept, of all together {@link HISTORY_BYTES_MAX}.
 */
export function recordOperation(history: IfaceHistory, event: OperationEvent): IfaceHistory {
  return bounded(withEvent(history, event));
}

/** The history with all that another one says. */
export function mergedHistory(kept: IfaceHistory, told: IfaceHistory): IfaceHistory {
  const events = told.flatMap(({ name, operations }) =>
    operations.map((operation) => ({ name, operation })),
  );
  return bounded(events.reduce(withEvent, kept));
}

/** The same when its guest has ended: nothing goes on any more. Absent: nobody knows since when. */
export function endedHistory(history: IfaceHistory, endTimestamp?: string): IfaceHistory {
  const end = endTimestamp === undefined ? {} : { endTimestamp };
  return history.map(({ name, operations }) => ({
    name,
    operations: operations.map((operation) =>
      isOver(operation) ? operation : { ...operation, ...end, outcome: "GuestEnded" },
    ),
  }));
}
