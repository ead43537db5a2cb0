// SPDX-License-Identifier: Apache-2.0
import type { IfaceHistory, IfaceOperation } from "@patchbay/api";
import { expect, test } from "vitest";
import {
  endHistory,
  HISTORY_BYTES_MAX,
  mergeHistory,
  OPERATIONS_MAX,
  recordOperation,
} from "./record.ts";

/** A time that is later the greater the number is. */
function at(number: number): string {
  return `2026-01-01T00:00:00.${String(number).padStart(3, "0")}Z`;
}

function plug(start: number, more: Partial<IfaceOperation> = {}): IfaceOperation {
  return { type: "Plug", startTimestamp: at(start), phases: [], ...more };
}

const DONE = { outcome: "Done", endTimestamp: at(900) } as const;

function starts(history: IfaceHistory): Readonly<Record<string, readonly string[]>> {
  return Object.fromEntries(
    history.map(({ name, operations }) => [
      name,
      operations.map(({ startTimestamp }) => startTimestamp),
    ]),
  );
}

interface Row {
  readonly name: string;
  readonly before: readonly IfaceOperation[];
  readonly event: IfaceOperation;
  readonly want: readonly IfaceOperation[];
}

test.each<Row>([
  { name: "adds the first operation", before: [], event: plug(1), want: [plug(1)] },
  {
    name: "adds another operation",
    before: [plug(1, DONE)],
    event: plug(2),
    want: [plug(1, DONE), plug(2)],
  },
  {
    name: "updates an operation in progress",
    before: [plug(1)],
    event: plug(1, { reason: "CniFailed" }),
    want: [plug(1, { reason: "CniFailed" })],
  },
  { name: "ends an operation", before: [plug(1)], event: plug(1, DONE), want: [plug(1, DONE)] },
  {
    name: "ignores an update of an ended operation",
    before: [plug(1, DONE)],
    event: plug(1),
    want: [plug(1, DONE)],
  },
  {
    name: "ignores a second end of an operation",
    before: [plug(1, DONE)],
    event: plug(1, { outcome: "Cancelled" }),
    want: [plug(1, DONE)],
  },
  {
    name: "adds another type with the same start time",
    before: [plug(1, DONE)],
    event: { ...plug(1), type: "Unplug" },
    want: [plug(1, DONE), { ...plug(1), type: "Unplug" }],
  },
])("$name", ({ before, event, want }) => {
  const history = before.length === 0 ? [] : [{ name: "one", operations: [...before] }];
  const next = recordOperation(history, { name: "one", operation: event });
  expect(next).toEqual([{ name: "one", operations: want }]);
});

test("retains the last ten operations of each interface", () => {
  let history: IfaceHistory = [{ name: "other", operations: [plug(0, DONE)] }];
  for (let start = 1; start <= OPERATIONS_MAX + 3; start += 1) {
    history = recordOperation(history, { name: "one", operation: plug(start, DONE) });
  }
  const retained = Array.from({ length: OPERATIONS_MAX }, (_, index) => at(index + 4));
  expect(starts(history)).toEqual({ other: [at(0)], one: retained });
});

/** As large as a message of an operation may be. */
const LONG = { ...DONE, reason: "CniFailed", message: "m".repeat(200), attempts: 3 };

test("drops the oldest superseded operation first when the limit is exceeded", () => {
  let history: IfaceHistory = [];
  for (let start = 0; start < 200; start += 1) {
    const name = `nic${String(start % 20)}`;
    history = recordOperation(history, { name, operation: plug(start, LONG) });
  }
  expect(JSON.stringify(history).length).toBeLessThanOrEqual(HISTORY_BYTES_MAX);
  const retained = Object.values(starts(history));
  expect(retained).toHaveLength(20);
  const all = retained.flat().toSorted();
  expect(all.at(-1)).toBe(at(199));
  expect(all[0]).toBe(at(200 - all.length));
});

test("retains one operation of each NIC, including deleted ones, within the limit", () => {
  const deleted = { name: "gone", operation: plug(0, LONG) };
  let history = recordOperation([], deleted);
  for (let start = 1; start < 300; start += 1) {
    const name = `nic${String(start % 15)}`;
    history = recordOperation(history, { name, operation: plug(start, LONG) });
  }
  expect(starts(history)["gone"]).toEqual([at(0)]);
});

test("forgets the oldest of many deleted NICs first", () => {
  let history: IfaceHistory = [];
  for (let start = 0; start < 400; start += 1) {
    history = recordOperation(history, {
      name: `nic${String(start)}`,
      operation: plug(start, LONG),
    });
  }
  const names = Object.keys(starts(history));
  expect(names.at(-1)).toBe("nic399");
  expect(names[0]).toBe(`nic${String(400 - names.length)}`);
  expect(JSON.stringify(history).length).toBeLessThanOrEqual(HISTORY_BYTES_MAX);
});

test("limits the history in bytes, not in characters", () => {
  let history: IfaceHistory = [];
  const message = "→".repeat(200);
  for (let start = 0; start < 100; start += 1) {
    const operation = plug(start, { ...LONG, message });
    history = recordOperation(history, { name: `nic${String(start % 10)}`, operation });
  }
  expect(Buffer.byteLength(JSON.stringify(history))).toBeLessThanOrEqual(HISTORY_BYTES_MAX);
});

test("merges two histories idempotently", () => {
  const retained = [{ name: "one", operations: [plug(1, DONE), plug(5)] }];
  const reported = [
    { name: "one", operations: [plug(5, DONE), plug(6)] },
    { name: "two", operations: [plug(2)] },
  ];
  const both = mergeHistory(retained, reported);
  expect(both).toEqual([
    { name: "one", operations: [plug(1, DONE), plug(5, DONE), plug(6)] },
    { name: "two", operations: [plug(2)] },
  ]);
  expect(mergeHistory(both, reported)).toEqual(both);
});

test("closes all open operations when the guest ends", () => {
  const history = [{ name: "one", operations: [plug(1, DONE), plug(5)] }];
  const ended = plug(5, { outcome: "GuestEnded", endTimestamp: at(7) });
  expect(endHistory(history, at(7))).toEqual([{ name: "one", operations: [plug(1, DONE), ended] }]);
  expect(endHistory(history)[0]?.operations[1]).toEqual(plug(5, { outcome: "GuestEnded" }));
});
