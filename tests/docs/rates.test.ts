// SPDX-License-Identifier: Apache-2.0
// The table of rates in access.md has the numbers of the source.
import { expect, test } from "vitest";
import { readText } from "./documents.ts";

const API_SERVER = "packages/standalone/apiserver/src/limits/limits.ts";
const RULES = "packages/standalone/service-net/src/forward/ruleset.ts";

/** Statements of the source for each row, with `<burst>` for the number in the column `at once`, and `<rate>` for `then per second`. */
const STATEMENTS: readonly (readonly (readonly [file: string, statement: string])[])[] = [
  [[API_SERVER, "requests: { burst: <burst>, perSecond: <rate> }"]],
  [[API_SERVER, "requests: { burst: <burst>, perSecond: <rate> }"]],
  [[API_SERVER, "thread: { burst: <burst>, perSecond: <rate> }"]],
  [
    ["packages/control-plane/virt-api/src/http/app.ts", "CHANGE_BURST = <burst>;"],
    ["packages/standalone/supervisor/src/supervisor/components.ts", "CHANGES_PER_SECOND = <rate>;"],
  ],
  [
    [
      "packages/control-plane/virt-api/src/screen/screenshot.ts",
      "SCREENSHOT_RATE: Rate = { burst: <burst>, perSecond: <rate> }",
    ],
  ],
  [
    [
      "packages/standalone/node-runtime/src/schedule/binder.ts",
      "BIND_RATE: Rate = { burst: <burst>, perSecond: <rate> }",
    ],
  ],
  [[RULES, 'CONNECTION_RATE = "<rate>/second burst <burst> packets"']],
  [[API_SERVER, "handshakes: { burst: <burst>, perSecond: <rate> }"]],
  [
    [
      "packages/common/daemon/src/https/server.ts",
      "HANDSHAKE_RATE: Rate = { burst: <burst>, perSecond: <rate> }",
    ],
  ],
  [[RULES, 'tcp: "<rate>/second burst <burst> packets"']],
  [[RULES, 'udp: "<rate>/second burst <burst> packets"']],
  [
    [
      "packages/standalone/service-net/src/dns/serve.ts",
      "QUERY_RATE: Rate = { burst: <burst>, perSecond: <rate> }",
    ],
  ],
];

function readRows(): readonly (readonly string[])[] {
  const [, below = ""] = readText("docs/reference/standalone/access.md").split(
    /^\| what .*\n.*\n/m,
  );
  const [table = ""] = below.split("\n\n", 1);
  return table.split("\n").map((row) => row.split("|").map((cell) => cell.trim()));
}

test("the table has the numbers of the source", () => {
  const rows = readRows();
  expect(rows).toHaveLength(STATEMENTS.length);
  const missing = rows.flatMap(([, what, , burst = "", rate = ""], index) =>
    (STATEMENTS[index] ?? []).flatMap(([file, template]) => {
      const statement = template.replace("<burst>", burst.replace(",", "")).replace("<rate>", rate);
      return readText(file).includes(statement) ? [] : [{ what, file, statement }];
    }),
  );
  expect(missing).toEqual([]);
});
