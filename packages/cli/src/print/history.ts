// SPDX-License-Identifier: Apache-2.0
// Prints the text of `patchbay history`.
import type { IfaceHistory, IfaceOperation } from "@patchbay/api";
import { computeDurationMs, describeDelay, printSeconds } from "@patchbay/core/history";
import { printTable } from "./table.ts";

const HEADERS = ["TIME", "INTERFACE", "OPERATION", "NETWORK", "TOOK", "PHASES", "OUTCOME"];

function operationCell({ type, linkState }: IfaceOperation): string {
  return linkState === undefined ? type : `${type} ${linkState}`;
}

function phasesCell({ phases }: IfaceOperation): string {
  return phases
    .map(({ phase, milliseconds: ms }) => `${phase} ${ms === undefined ? "…" : printSeconds(ms)}`)
    .join(", ");
}

function outcomeCell(operation: IfaceOperation): string {
  const delay = describeDelay(operation);
  const outcome = operation.outcome ?? "in progress";
  return delay === undefined ? outcome : `${outcome}, ${delay}`;
}

export function printHistory(history: IfaceHistory): string {
  const rows = history
    .flatMap(({ name, operations }) => operations.map((operation) => ({ name, operation })))
    .toSorted((left, right) =>
      left.operation.startTimestamp < right.operation.startTimestamp ? -1 : 1,
    );
  if (rows.length === 0) return "nothing was done while the guest ran\n";
  return printTable(
    HEADERS,
    rows.map(({ name, operation }) => {
      const ms = computeDurationMs(operation);
      return [
        operation.startTimestamp,
        name,
        operationCell(operation),
        operation.networkName ?? "pod",
        ms === undefined ? undefined : printSeconds(ms),
        phasesCell(operation),
        outcomeCell(operation),
      ];
    }),
  );
}
