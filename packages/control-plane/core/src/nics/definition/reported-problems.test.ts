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
  { name: "is not written without a problem" },
  { name: "is added for a new problem", told: REPORTED, want: [entry("node")] },
  { name: "is not rewritten for a reported problem", now: [entry("node")], told: REPORTED },
  {
    name: "is replaced by a different problem",
    now: [entry("node", "NodeLinkUnfit")],
    told: REPORTED,
    want: [entry("node")],
  },
  {
    name: "is replaced for a new generation of the definition",
    now: [entry("node", "PluginMissing", 1)],
    told: REPORTED,
    want: [entry("node")],
  },
  {
    name: "is inserted among other nodes' entries in order",
    now: [entry("a"), entry("z")],
    told: REPORTED,
    want: [entry("a"), entry("node"), entry("z")],
  },
  { name: "is removed when the problem is solved", now: [entry("node")], want: [] },
  {
    name: "is removed, and other nodes' entries are retained",
    now: [entry("a"), entry("node")],
    want: [entry("a")],
  },
  { name: "is not written beside other nodes' entries without a problem", now: [entry("a")] },
  { name: "is not added to ten existing entries", now: TEN, told: REPORTED },
  {
    name: "is removed from ten entries",
    now: [...TEN.slice(1), entry("node")],
    want: TEN.slice(1),
  },
  { name: "of another node for an older generation is retained", now: [entry("a", "X", 1)] },
  {
    name: "of another node for an older generation is removed by the cleanup",
    now: [entry("a", "X", 1)],
    isTidying: true,
    want: [],
  },
  {
    name: "of a deleted node is removed",
    now: [entry("a"), entry("b"), entry("node")],
    gone: ["a"],
    told: REPORTED,
    want: [entry("b"), entry("node")],
  },
  { name: "is not written for deleted nodes without entries", now: [entry("b")], gone: ["a"] },
  {
    name: "replaces the entry of a deleted node at the limit",
    now: TEN,
    gone: ["m3"],
    told: REPORTED,
    want: [...TEN.filter(({ node }) => node !== "m3"), entry("node")],
  },
  {
    name: "of another node for an older generation is removed with the next write",
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

describe("the entry of a node", () => {
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

test("lists other nodes with entries", () => {
  expect(listOtherNodes(nadWith([entry("z"), entry("node"), entry("a")]), "node")).toEqual([
    "a",
    "z",
  ]);
  expect(listOtherNodes(nadWith(), "node")).toEqual([]);
});

describe("the summary of problems", () => {
  const missing = new AppError("CNI_PLUGIN_MISSING", { plugin: "x", path: "/opt/cni/bin" });

  test("is undefined without problems", () => {
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
