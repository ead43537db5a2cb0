// SPDX-License-Identifier: Apache-2.0
// Detection of each of the three faults in granted rights.
import { expect, test } from "vitest";
import { judgeRights } from "./rights.ts";

const AGENT = "system:serviceaccount:patchbay:net-agent";
const GRANTED = [
  { user: AGENT, verb: "get", resource: "pods" },
  { user: AGENT, verb: "patch", resource: "pods/status" },
];

/** A log line about `right`: a verb and a resource. */
function line(message: string, right: string, user = AGENT): string {
  const [verb, resource] = right.split(" ");
  return `${JSON.stringify({ level: "info", message, user, verb, resource })}\n`;
}

const USED = line("right used", "get pods") + line("right used", "patch pods/status");

test.each([
  { name: "reports nothing if every granted right is used", log: USED, want: {} },
  {
    name: "reports a right that is never used",
    log: line("right used", "get pods"),
    want: { unused: [`${AGENT} patch pods/status`] },
  },
  {
    name: "reports a granted right that another role uses",
    log: USED + line("right used", "create tokenreviews.authentication.k8s.io"),
    want: { foreign: [`${AGENT} create tokenreviews.authentication.k8s.io`] },
  },
  {
    name: "reports a missing right once",
    log: USED + line("right missing", "list secrets") + line("right missing", "list secrets"),
    want: { missing: [`${AGENT} list secrets`] },
  },
  {
    name: "finds denied users in log lines",
    log: `${line("right missing", "list secrets", "jane")}not JSON\n${USED}`,
    want: {},
  },
])("$name", ({ log, want }) => {
  const nothing = { unused: [], foreign: [], missing: [] };
  expect(judgeRights(GRANTED, log)).toEqual({ ...nothing, ...want });
});
