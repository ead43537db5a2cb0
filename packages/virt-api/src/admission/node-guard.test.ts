// SPDX-License-Identifier: Apache-2.0
// May this agent write that status?
import { expect, test } from "vitest";
import type { User } from "../call.ts";
import { guardStatus } from "./node-guard.ts";

const AGENT = "system:serviceaccount:patchbay:virt-handler";
const CLAIM = "authentication.kubernetes.io/node-name";
const OLD = { nodeName: "a", activePods: { one: "a" }, attachments: [{ name: "n" }] };

function judge(user: User, before: object, after: object = { ...before, phase: "Running" }) {
  return guardStatus({
    uid: "1",
    kind: "VirtualMachineInstance",
    operation: "UPDATE",
    subresource: "status",
    namespace: "ns",
    user,
    object: { status: after },
    oldObject: { status: before },
  });
}

function agent(node: string): User {
  return { name: AGENT, groups: [`patchbay.io:node:${node}`] };
}

const MOVING = { nodeName: "a", activePods: { one: "a", two: "b" } };
const BY_TOKEN: User = { name: AGENT, groups: [], extra: { [CLAIM]: ["a"] } };
const IN_DISPUTE: User = { ...agent("b"), extra: { [CLAIM]: ["a"] } };

test.each([
  { name: "its own node, by certificate", user: agent("a"), before: OLD, want: true },
  { name: "its own node, by token", user: BY_TOKEN, before: OLD, want: true },
  { name: "either node of a migration", user: agent("b"), before: MOVING, want: true },
  { name: "another node", user: agent("b"), before: OLD, want: false },
  { name: "a VMI that is nowhere yet", user: agent("a"), before: {}, want: false },
  { name: "a group and a token that disagree", user: IN_DISPUTE, before: OLD, want: false },
  { name: "no node named", user: { name: AGENT, groups: [] }, before: OLD, want: false },
  { name: "somebody else", user: { name: "jane", groups: [] }, before: OLD, want: true },
])("$name", ({ user, before, want }) => {
  expect(judge(user, before).allowed).toBe(want);
});

test.each([
  { field: "nodeName", value: "b" },
  { field: "activePods", value: {} },
  { field: "attachments", value: undefined },
])("an agent does not write $field", ({ field, value }) => {
  expect(judge(agent("a"), OLD, { ...OLD, [field]: value })).toMatchObject({
    allowed: false,
    code: 403,
  });
});
