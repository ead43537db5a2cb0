// SPDX-License-Identifier: Apache-2.0
import type { NetworkAttachmentDefinition, NodeProblem } from "@patchbay/api";
import type { JsonPatchOperation } from "@patchbay/api/json";
import { describe, expect, test } from "vitest";
import { AppError } from "@patchbay/base";
import {
  hasStaleProblems,
  listOtherNodes,
  buildProblemsPatch,
  summarizeProblems,
} from "./reported-problems.ts";

function nadWith(problems?: readonly NodeProblem[], generation = 2): NetworkAttachmentDefinition {
  return {
    apiVersion: "k8s.cni.cncf.io/v1",
    kind: "NetworkAttachmentDefinition",
    metadata: { namespace: "ns", name: "blue", uid: "u", resourceVersion: "7", generation },
    ...(problems === undefined ? {} : { status: { problems: [...problems] } }),
  };
}

function entry(node: string, reason = "PluginMissing", generation = 2): NodeProblem {
  return { node, reason, message: `${reason}!`, generation };
}

const REPORTED = { reason: "PluginMissing", message: "PluginMissing!" };
const TEN = Array.from({ length: 10 }, (_, at) => entry(`m${String(at)}`));

interface Row {
  readonly name: string;
  readonly now?: readonly NodeProblem[];
  readonly told?: typeof REPORTED;
  readonly isTidying?: boolean;
  readonly gone?: readonly string[];
  /** What the status has afterwards; undefined: nothing is written. */
  readonly want?: readonly NodeProblem[];
}

const ROWS: readonly Row[] = [
  { name: "nothing is wrong, and nothing is said" },
  { name: "a problem that nobody has told", told: REPORTED, want: [entry("node")] },
  { name: "a problem that is told already", now: [entry("node")], told: REPORTED },
  {
    name: "another problem than before",
    now: [entry("node", "NodeLinkUnfit")],
    told: REPORTED,
    want: [entry("node")],
  },
  {
    name: "the same problem of another text",
    now: [entry("node", "PluginMissing", 1)],
    told: REPORTED,
    want: [entry("node")],
  },
  {
    name: "beside others', in their order",
    now: [entry("a"), entry("z")],
    told: REPORTED,
    want: [entry("a"), entry("node"), entry("z")],
  },
  { name: "a problem that is no more", now: [entry("node")], want: [] },
  {
    name: "the same where others have theirs",
    now: [entry("a"), entry("node")],
    want: [entry("a")],
  },
  { name: "others' problems", now: [entry("a")] },
  { name: "a problem that ten tell already", now: TEN, told: REPORTED },
  { name: "its own entry among ten", now: [...TEN.slice(1), entry("node")], want: TEN.slice(1) },
  { name: "what another node said of an older text waits for it", now: [entry("a", "X", 1)] },
  {
    name: "what another node said of an older text, after a time",
    now: [entry("a", "X", 1)],
    isTidying: true,
    want: [],
  },
  {
    name: "what a node said that is no more",
    now: [entry("a"), entry("b"), entry("node")],
    gone: ["a"],
    told: REPORTED,
    want: [entry("b"), entry("node")],
  },
  { name: "that nodes are no more which have said nothing", now: [entry("b")], gone: ["a"] },
  {
    name: "room for its own entry where a node is no more",
    now: TEN,
    gone: ["m3"],
    told: REPORTED,
    want: [...TEN.filter(({ node }) => node !== "m3"), entry("node")],
  },
  {
    name: "what another node said of an older text goes with a write of one's own",
    now: [entry("a", "X", 1)],
    told: REPORTED,
    want: [entry("node")],
  },
];

/** The write that leaves these problems. */
function writeOf(problems: readonly NodeProblem[]): JsonPatchOperation {
  return problems.length === 0
    ? { op: "remove", path: "/status/problems" }
    : { op: "add", path: "/status", value: { problems } };
}

/** What every write rests on. */
const TESTS: readonly JsonPatchOperation[] = [
  { op: "test", path: "/metadata/uid", value: "u" },
  { op: "test", path: "/metadata/resourceVersion", value: "7" },
];

describe("a node finds", () => {
  test.each(ROWS)(
    "$name",
    ({ now, told: reported, isTidying = false, gone: deleted = [], want }) => {
      const operations = buildProblemsPatch(nadWith(now), {
        node: "node",
        reported,
        removesStale: isTidying,
        deletedNodes: deleted,
      });
      expect(operations).toEqual(want === undefined ? [] : [...TESTS, writeOf(want)]);
    },
  );
});

test("treats other nodes' entries as stale after a change of the definition, but not its own", () => {
  expect(hasStaleProblems(nadWith([entry("a")]), "node")).toBe(false);
  expect(hasStaleProblems(nadWith([entry("a")], 3), "node")).toBe(true);
  expect(hasStaleProblems(nadWith([entry("node")], 3), "node")).toBe(false);
  expect(hasStaleProblems(nadWith(), "node")).toBe(false);
});

test("other nodes with reports", () => {
  expect(listOtherNodes(nadWith([entry("z"), entry("node"), entry("a")]), "node")).toEqual([
    "a",
    "z",
  ]);
  expect(listOtherNodes(nadWith(), "node")).toEqual([]);
});

describe("the report of problems", () => {
  const missing = new AppError("CNI_PLUGIN_MISSING", { plugin: "x", path: "/opt/cni/bin" });

  test("none is nothing", () => {
    expect(summarizeProblems("ns/blue", [])).toBeUndefined();
  });

  test("has the first problem's reason, and all messages with advice", () => {
    const link = new AppError("CNI_LINK_MISSING", { network: "ns/blue", link: "e", field: "f" });
    const reported = summarizeProblems("ns/blue", [missing, link]);
    expect(reported?.reason).toBe("PluginMissing");
    expect(reported?.message).toMatch(
      /^CNI plugin x was not found in \/opt\/cni\/bin; correct the name in spec\.config of NetworkAttachmentDefinition ns\/blue, .*\. network ns\/blue needs link e/,
    );
  });

  test("is limited to the size of an event", () => {
    const reported = summarizeProblems(
      "ns/blue",
      Array.from({ length: 40 }, () => missing),
    );
    expect(reported?.message).toHaveLength(1024);
  });
});
