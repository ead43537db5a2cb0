// SPDX-License-Identifier: Apache-2.0
// Agents' writes of VMI status, and writes of launcher pods.
import { describe, expect, test } from "vitest";
import type { TokenPod, User } from "../http/calls.ts";
import { guardStatus } from "./guards.ts";
import { names } from "@patchbay/api";
import type { ObjectMeta } from "@patchbay/api/kubernetes";
import { createFakeStore } from "@patchbay/kube/testing";
import { depsOn } from "../testing/deps.ts";
import { validate } from "./validate.ts";

const AGENT = "system:serviceaccount:patchbay:virt-handler";
const CLAIM = "authentication.kubernetes.io/node-name";
const POD_NAME = "authentication.kubernetes.io/pod-name";
const POD_UID = "authentication.kubernetes.io/pod-uid";
const OLD = {
  phase: "Scheduled",
  nodeName: "a",
  activePods: { one: "a" },
  attachments: [{ name: "n" }],
};

const NODES: Readonly<Record<string, string>> = { "patchbay/agent-x x-uid": "a" };

function printPod({ namespace, name, uid }: TokenPod): string {
  return `${namespace}/${name} ${uid}`;
}

function judge(user: User, before: object, after: object = { ...before, phase: "Running" }) {
  const pods = { findPodNode: (pod: TokenPod) => Promise.resolve(NODES[printPod(pod)]) };
  return guardStatus(pods, {
    uid: "1",
    kind: "VirtualMachineInstance",
    operation: "UPDATE",
    subresource: "status",
    namespace: "ns",
    name: "vm",
    user,
    object: { status: after },
    oldObject: { status: before },
  });
}

function agent(node: string): User {
  return { name: AGENT, groups: [`patchbay.io:node:${node}`] };
}

const MOVING = { phase: "Scheduled", nodeName: "a", activePods: { one: "a", two: "b" } };
const BY_TOKEN: User = { name: AGENT, groups: [], extra: { [CLAIM]: ["a"] } };
const IN_DISPUTE: User = { ...agent("b"), extra: { [CLAIM]: ["a"] } };

/** A user whose token is bound to pods; before Kubernetes 1.30 the token names no node. */
function byPod(
  name: readonly string[],
  uid: readonly string[],
  node: readonly string[] = [],
): User {
  const claim = node.length === 0 ? {} : { [CLAIM]: node };
  return { name: AGENT, groups: [], extra: { [POD_NAME]: name, [POD_UID]: uid, ...claim } };
}

const BY_POD = byPod(["agent-x"], ["x-uid"]);
const ELSEWHERE = { phase: "Scheduled", nodeName: "a", activePods: { one: "b" } };
const ON_B = { phase: "Scheduled", nodeName: "b", activePods: { two: "b" } };

test.each([
  { name: "its own node, by certificate", user: agent("a"), before: OLD, want: true },
  { name: "its own node, by token", user: BY_TOKEN, before: OLD, want: true },
  { name: "its own node, by the token's pod", user: BY_POD, before: OLD, want: true },
  { name: "a node other than that of the token's pod", user: BY_POD, before: ON_B, want: false },
  { name: "a pod of another uid", user: byPod(["agent-x"], ["y-uid"]), before: OLD, want: false },
  { name: "a pod without a uid", user: byPod(["agent-x"], []), before: OLD, want: false },
  { name: "two uids", user: byPod(["agent-x"], ["x-uid", "y"]), before: OLD, want: false },
  {
    name: "its own node, among other groups",
    user: { name: AGENT, groups: ["system:authenticated", ...agent("a").groups] },
    before: OLD,
    want: true,
  },
  {
    name: "a VMI with only a target pod on the node",
    user: agent("b"),
    before: ELSEWHERE,
    want: false,
  },
  {
    name: "a VMI with a pod on the node and no node name yet",
    user: agent("b"),
    before: { phase: "Scheduled", activePods: { one: "b" } },
    want: true,
  },
  {
    name: "a VMI with only a node name",
    user: agent("a"),
    before: { phase: "Scheduled", nodeName: "a" },
    want: true,
  },
  { name: "two pods", user: byPod(["agent-x", "y"], ["x-uid"]), before: OLD, want: false },
  {
    name: "a token whose node differs from the node of its pod",
    user: byPod(["agent-x"], ["x-uid"], ["b"]),
    before: OLD,
    want: false,
  },
  { name: "the owner in a migration", user: agent("a"), before: MOVING, want: true },
  { name: "the target of a migration", user: agent("b"), before: MOVING, want: false },
  { name: "another node", user: agent("b"), before: OLD, want: false },
  { name: "a VMI without a node", user: agent("a"), before: {}, want: false },
  {
    name: "a node in the group and another in the token",
    user: IN_DISPUTE,
    before: OLD,
    want: false,
  },
  {
    name: "credentials without a node",
    user: { name: AGENT, groups: [] },
    before: OLD,
    want: false,
  },
  { name: "another user", user: { name: "jane", groups: [] }, before: OLD, want: true },
])("$name", async ({ user, before, want }) => {
  expect((await judge(user, before)).allowed).toBe(want);
});

test.each([
  { field: "nodeName", value: "b" },
  { field: "activePods", value: {} },
  { field: "attachments", value: undefined },
  { field: "conditions", value: [{ type: "Ready", status: "True" }] },
  { field: "conditions", value: [{ status: "True" }] },
  { field: "volumeStatus", value: [{ name: "root" }] },
  { field: "reason", value: "x" },
  { field: "phaseTransitionTimestamps", value: [] },
  { field: "somethingNew", value: 1 },
])("rejects an agent's write of $field", async ({ field, value }) => {
  expect(await judge(agent("a"), OLD, { ...OLD, [field]: value })).toMatchObject({
    allowed: false,
    code: 403,
    message: `User "${AGENT}" may not write status.${field}: virt-handler does not own it`,
  });
});

test.each([
  { field: "interfaces", value: [{ name: "n" }] },
  { field: "unlistedGuestInterfaces", value: 3 },
  { field: "conditions", value: [{ type: "AgentConnected", status: "True" }] },
  { field: "guestOSInfo", value: { id: "debian" } },
  { field: "pciePorts", value: { total: 1, free: 1 } },
  { field: "blockedReason", value: { reason: "LauncherUnreachable", message: "x" } },
])("an agent may set and remove $field", async ({ field, value }) => {
  const told = { ...OLD, [field]: value };
  expect(await judge(agent("a"), OLD, told)).toMatchObject({ allowed: true });
  expect(await judge(agent("a"), told, OLD)).toMatchObject({ allowed: true });
});

describe("during a migration", () => {
  const open = { migrationUid: "m1", sourceNode: "a", targetNode: "b" };
  const status = (migrationState: object): object => ({
    ...MOVING,
    phase: "Running",
    migrationState,
  });

  test.each<{ field: string; value: unknown; source: boolean; target: boolean }>([
    ...["startTimestamp", "failureReason"].map((field) => ({
      field,
      value: "x",
      source: true,
      target: false,
    })),
    { field: "mode", value: "PreCopy", source: true, target: false },
    { field: "failed", value: true, source: true, target: false },
    { field: "abortStatus", value: "Succeeded", source: true, target: false },
    ...["targetNodeAddress", "targetNodeDomainReadyTimestamp"].map((field) => ({
      field,
      value: "x",
      source: false,
      target: true,
    })),
    { field: "targetNodeDomainDetected", value: true, source: false, target: true },
    {
      field: "targetDirectMigrationNodePorts",
      value: { "1": 0 },
      source: false,
      target: true,
    },
    ...["completed", "abortRequested"].map((field) => ({
      field,
      value: true,
      source: false,
      target: false,
    })),
    ...["migrationUid", "sourceNode", "targetNode", "endTimestamp"].map((field) => ({
      field,
      value: "x",
      source: false,
      target: false,
    })),
    { field: "targetAttachments", value: [], source: false, target: false },
  ])("$field may be written by the source: $source, by the target: $target", async (row) => {
    const { field, value, source, target } = row;
    const after = status({ ...open, [field]: value });
    const says = async (node: string, before = status(open)) =>
      (await judge(agent(node), before, after)).allowed;
    expect([await says("a"), await says("b"), await says("c")]).toEqual([source, target, false]);
    const [over, stayed] = [true, false].map((failed) =>
      status({ ...open, completed: true, failed }),
    );
    expect([await says("a", over), await says("b", stayed)]).toEqual([false, false]);
  });

  test("the target may not write other fields, and the rejection names each", async () => {
    const before = status(open);
    const told = { ...before, interfaces: [{ name: "n" }] };
    expect(await judge(agent("b"), before, told)).toMatchObject({
      message: expect.stringContaining("may not write status.interfaces") as string,
    });
    const done = status({ ...open, completed: true });
    expect(await judge(agent("b"), before, done)).toMatchObject({
      message: expect.stringContaining("may not write status.migrationState.completed") as string,
    });
    expect((await judge(agent("b"), before, { ...before, phase: "Succeeded" })).allowed).toBe(
      false,
    );
  });

  test("rejects writes of a migration that is not open", async () => {
    const before = { ...MOVING, phase: "Running" };
    const after = status({ startTimestamp: "x" });
    expect((await judge(agent("a"), before, after)).allowed).toBe(false);
  });
});

test.each([
  { from: "Scheduled", to: "Running", want: true },
  { from: "Running", to: "Succeeded", want: true },
  { from: "Running", to: "Failed", want: true },
  { from: "Scheduled", to: "Failed", want: false },
  { from: "Scheduled", to: undefined, want: false },
  { from: "Running", to: "Scheduled", want: false },
  { from: "Failed", to: "Running", want: false },
  { from: undefined, to: "Running", want: false },
  { from: "constructor", to: "name", want: false },
])("an agent may change the phase from $from to $to: $want", async ({ from, to, want }) => {
  const [before, after] = [from, to].map((phase) => ({ ...OLD, phase }));
  expect((await judge(agent("a"), before ?? {}, after)).allowed).toBe(want);
});

test("the rejection of a phase names the previous phase", async () => {
  expect(await judge(agent("a"), OLD, { ...OLD, phase: "Failed" })).toMatchObject({
    message: expect.stringContaining("status.phase: Failed after Scheduled") as string,
  });
});

test.each([
  { name: "no name", user: byPod([], ["x-uid"]) },
  { name: "no uid", user: byPod(["agent-x"], []) },
  { name: "neither name nor uid", user: { name: AGENT, groups: [] } },
])("a token with $name identifies no pod", async ({ user }) => {
  const nodeOfPod = () => Promise.resolve("a");
  const status = { status: OLD };
  const verdict = await guardStatus(
    { findPodNode: nodeOfPod },
    {
      uid: "1",
      kind: "VirtualMachineInstance",
      operation: "UPDATE",
      subresource: "status",
      namespace: "ns",
      name: "vm",
      user,
      object: status,
      oldObject: status,
    },
  );
  expect(verdict.allowed).toBe(false);
});

test.each([
  { user: { name: AGENT, groups: [] }, message: /does not name exactly one node, by a token/ },
  { user: agent("b"), message: /of node "b" may not write objects of another node/ },
])("the rejection states the reason: $message", async ({ user, message }) => {
  expect(await judge(user, OLD)).toMatchObject({
    allowed: false,
    code: 403,
    causes: [],
    message: expect.stringMatching(message) as string,
  });
});

test("rejects an agent's change of other writers' conditions", async () => {
  const [ready, own] = [
    { type: "Ready", status: "True" },
    { type: "AgentConnected", status: "True" },
  ];
  const before = { ...OLD, conditions: [own, ready] };
  const judged = async (...conditions: readonly object[]) =>
    (await judge(agent("a"), before, { ...OLD, conditions })).allowed;
  expect(await judged(ready)).toBe(true);
  expect(await judged(ready, { ...own, status: "False" })).toBe(true);
  expect(await judged(own)).toBe(false);
  expect(await judged(own, { ...ready, status: "False" })).toBe(false);
});

type Words = Pick<ObjectMeta, "labels" | "annotations">;

const STATUS = { [names.NETWORK_STATUS_ANNOTATION]: "[]" };
const ERRORS = { [names.ATTACHMENT_ERRORS_ANNOTATION]: "{}" };
const GATEWAYS = { [names.CNI_GATEWAYS_ANNOTATION]: "{}" };
const LABEL = { [names.KUBEVIRT_LABEL]: names.LAUNCHER_LABEL_VALUE };
const LAUNCHER: Words = {
  labels: LABEL,
  annotations: { ...STATUS, ...ERRORS, ...GATEWAYS },
};

function judgePod(before: Words | undefined, after: Words) {
  const podOf = (words: Words): object => ({ kind: "Pod", metadata: { name: "p", ...words } });
  return validate(depsOn(createFakeStore()), {
    uid: "1",
    kind: "Pod",
    operation: before === undefined ? "CREATE" : "UPDATE",
    subresource: "",
    namespace: "ns",
    name: "p",
    user: { name: "alice", groups: [] },
    object: podOf(after),
    oldObject: before === undefined ? null : podOf(before),
  });
}

test.each<{ name: string; before: Words | undefined; after: Words }>([
  {
    name: "a new launcher that requests networks",
    before: undefined,
    after: { labels: LABEL, annotations: { [names.NETWORKS_ANNOTATION]: "[]" } },
  },
  { name: "a new pod with networks", before: undefined, after: { annotations: STATUS } },
  { name: "a pod that is not a launcher", before: { annotations: STATUS }, after: {} },
  {
    name: "a launcher that requests networks",
    before: LAUNCHER,
    after: {
      ...LAUNCHER,
      annotations: { ...LAUNCHER.annotations, [names.NETWORKS_ANNOTATION]: "" },
    },
  },
])("accepts $name", async ({ before, after }) => {
  expect(await judgePod(before, after)).toEqual({ allowed: true });
});

test.each<{ name: string; after: Words }>([
  {
    name: "reports other networks",
    after: {
      ...LAUNCHER,
      annotations: { ...LAUNCHER.annotations, [names.NETWORK_STATUS_ANNOTATION]: "[{}]" },
    },
  },
  { name: "reports no networks", after: { ...LAUNCHER, annotations: { ...ERRORS, ...GATEWAYS } } },
  { name: "reports no errors", after: { ...LAUNCHER, annotations: { ...STATUS, ...GATEWAYS } } },
  { name: "reports no gateways", after: { ...LAUNCHER, annotations: { ...STATUS, ...ERRORS } } },
  { name: "loses the launcher label", after: { ...LAUNCHER, labels: {} } },
])("rejects a launcher that $name", async ({ after }) => {
  expect(await judgePod(LAUNCHER, after)).toMatchObject({ allowed: false, code: 403 });
});

test.each<{ name: string; before: Words | undefined; after: Words }>([
  { name: "networks", before: undefined, after: { labels: LABEL, annotations: STATUS } },
  { name: "errors", before: undefined, after: { labels: LABEL, annotations: ERRORS } },
  { name: "gateways", before: undefined, after: { labels: LABEL, annotations: GATEWAYS } },
  {
    name: "networks, by its label",
    before: { annotations: STATUS },
    after: { labels: LABEL, annotations: STATUS },
  },
])("rejects a new launcher that already reports $name", async ({ before, after }) => {
  expect(await judgePod(before, after)).toMatchObject({ allowed: false, code: 403 });
});
