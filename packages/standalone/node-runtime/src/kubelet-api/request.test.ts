// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { parseRequest } from "./request.ts";

const NOW = Date.parse("2026-11-22T09:00:00Z");
const TARGET = { namespace: "ns", pod: "p", container: "c" };
const LOGS = "/containerLogs/ns/p/c";
const EXEC = "/exec/ns/p/c";
const PLAIN = { follow: false, timestamps: false };

test.each([
  { target: "/healthz", want: { kind: "health" } },
  { target: LOGS, want: { kind: "logs", target: TARGET, previous: false, query: PLAIN } },
  {
    target: `${LOGS}?follow=true&timestamps=true&previous=true&tailLines=0&limitBytes=1`,
    want: {
      kind: "logs",
      target: TARGET,
      previous: true,
      query: { follow: true, timestamps: true, tailLines: 0, limitBytes: 1 },
    },
  },
  {
    target: `${LOGS}?sinceSeconds=60`,
    want: { kind: "logs", query: { ...PLAIN, sinceMs: NOW - 60_000 } },
  },
  {
    target: `${LOGS}?sinceTime=2026-11-22T08:00:00Z`,
    want: { kind: "logs", query: { ...PLAIN, sinceMs: NOW - 3_600_000 } },
  },
  { target: `${LOGS}?tailLines=-1`, want: { kind: "refused", code: 422 } },
  { target: `${LOGS}?tailLines=x`, want: { kind: "refused", code: 422 } },
  { target: `${LOGS}?limitBytes=0`, want: { kind: "refused", code: 422 } },
  { target: `${LOGS}?sinceSeconds=0`, want: { kind: "refused", code: 422 } },
  { target: `${LOGS}?sinceTime=now`, want: { kind: "refused", code: 422 } },
  {
    target: `${EXEC}?command=sh&command=-c&command=echo+a%26b&input=1&output=1&error=1`,
    want: {
      kind: "exec",
      target: TARGET,
      query: {
        command: ["sh", "-c", "echo a&b"],
        stdin: true,
        stdout: true,
        stderr: true,
        tty: false,
      },
    },
  },
  {
    target: `${EXEC}?command=sh&output=1&error=1&tty=1`,
    want: { kind: "exec", query: { stdin: false, stdout: true, stderr: false, tty: true } },
  },
  {
    target: "/attach/ns/p/c?output=1&input=1",
    want: {
      kind: "attach",
      target: TARGET,
      query: { stdin: true, stdout: true, stderr: false, tty: false },
    },
  },
  { target: "/attach/ns/p/c", want: { kind: "refused", code: 400 } },
  { target: `${EXEC}?output=1`, want: { kind: "refused", code: 400 } },
  { target: `${EXEC}?command=sh`, want: { kind: "refused", code: 400 } },
  { target: "/containerLogs/ns/p", want: { kind: "refused", code: 404 } },
  { target: `${LOGS}/more`, want: { kind: "refused", code: 404 } },
  { target: "/containerLogs/ns/p/%ff", want: { kind: "refused", code: 404 } },
  { target: "/run/ns/p/c", want: { kind: "refused", code: 404 } },
  { target: "/", want: { kind: "refused", code: 404 } },
])("$target", ({ target, want }) => {
  expect(parseRequest(target, NOW)).toMatchObject(want);
});
