// SPDX-License-Identifier: Apache-2.0
// What is particular to pods beside their specification: quality of service, changes, grace at deletion.
import { expect, test } from "vitest";
import type { Fields } from "../../objects/json.ts";
import { changeRefusals, created, objectOf, refusals } from "../../testing/judge.ts";
import { POD_DISRUPTION_BUDGET } from "./disruption-budget.ts";
import { POD } from "./pod.ts";

const full = { cpu: "1", memory: "1Gi" };
const container = { name: "c", image: "i" };

test.each<{ resources: readonly Fields[]; init?: readonly Fields[]; want: string }>([
  { resources: [{}], want: "BestEffort" },
  { resources: [{ limits: { "x.io/device": "1" } }], want: "BestEffort" },
  { resources: [{ limits: full }], want: "Guaranteed" },
  { resources: [{ limits: full, requests: full }], want: "Guaranteed" },
  { resources: [{ limits: full, requests: { ...full, memory: "1Mi" } }], want: "Burstable" },
  { resources: [{ limits: full, requests: { ...full, cpu: "500m" } }], want: "Burstable" },
  { resources: [{ limits: { cpu: "1" } }], want: "Burstable" },
  { resources: [{ limits: { memory: "1Gi" } }], want: "Burstable" },
  { resources: [{ requests: { memory: "1Gi" } }], want: "Burstable" },
  { resources: [{ limits: full }, {}], want: "Burstable" },
  { resources: [{ limits: full }, { limits: full }], want: "Guaranteed" },
  { resources: [{ limits: full }], init: [{}], want: "Burstable" },
])("the QoS class with $resources and $init is $want", ({ resources, init = [], want }) => {
  const pod = created(POD, {
    spec: {
      containers: resources.map((of) => ({ ...container, resources: of })),
      initContainers: init.map((of) => ({ ...container, name: "d", resources: of })),
    },
    status: { phase: "Running" },
  });
  expect(pod["status"]).toEqual({ phase: "Pending", qosClass: want });
});

const FIXED = [
  expect.stringMatching(/^spec: Forbidden: pod updates may not change fields other than/) as string,
];
const was = { containers: [container], tolerations: [{ key: "a" }], nodeName: "n" };

test.each<{ name: string; before?: Fields; after: Fields; want: readonly string[] }>([
  { name: "nothing", after: was, want: [] },
  {
    name: "an image with another pull policy",
    after: {
      ...was,
      containers: [{ ...container, image: "j:1" }],
      tolerations: [{ key: "a" }, { key: "b" }],
      activeDeadlineSeconds: 5,
      schedulingGates: [],
    },
    want: FIXED,
  },
  {
    name: "changed images",
    before: {
      ...was,
      containers: [{ ...container, imagePullPolicy: "Always" }],
      initContainers: [{ ...container, image: "a:1" }],
    },
    after: {
      ...was,
      containers: [{ ...container, image: "j:1", imagePullPolicy: "Always" }],
      initContainers: [{ ...container, image: "b:1" }],
      tolerations: [],
      activeDeadlineSeconds: 5,
      schedulingGates: [],
    },
    want: [],
  },
  { name: "a changed node", after: { ...was, nodeName: "m" }, want: FIXED },
  {
    name: "a command",
    after: { ...was, containers: [{ ...container, command: ["a"] }] },
    want: FIXED,
  },
  {
    name: "an added container",
    after: { ...was, containers: [container, { ...container, name: "d" }] },
    want: FIXED,
  },
])("a change of a pod: $name", ({ before = was, after, want }) => {
  expect(changeRefusals(POD, { spec: before }, { spec: after })).toEqual(want);
});

test("a pod that was stored before a default was introduced can be changed", () => {
  const current = objectOf(POD, { spec: was });
  const object = created(POD, { spec: was });
  expect(POD.strategy.validateUpdate?.(object, current)).toEqual([]);
});

test.each<{
  name: string;
  spec?: Fields;
  phase?: string;
  asked?: number;
  want: number | undefined;
}>([
  { name: "its own grace period", spec: { terminationGracePeriodSeconds: 5 }, want: 5 },
  { name: "the default grace period", spec: {}, want: 30 },
  {
    name: "the requested grace period",
    spec: { terminationGracePeriodSeconds: 5 },
    asked: 7,
    want: 7,
  },
  {
    name: "68 years at most, so that its deletion has a time",
    spec: { terminationGracePeriodSeconds: 9e12 },
    want: 2 ** 31 - 1,
  },
  { name: "68 years at most, also if requested", asked: 9e12, want: 2 ** 31 - 1 },
  { name: "none", asked: 0, want: undefined },
  {
    name: "no grace period if its spec sets 0",
    spec: { terminationGracePeriodSeconds: 0 },
    want: undefined,
  },
  { name: "one second if requested", asked: 1, want: 1 },
  { name: "no grace period without a node", spec: { nodeName: "" }, asked: 7, want: undefined },
  { name: "no grace period after it succeeded", phase: "Succeeded", asked: 7, want: undefined },
  { name: "no grace period after it failed", phase: "Failed", asked: 7, want: undefined },
])("a deleted pod gets $name", ({ spec = {}, phase = "Running", asked, want }) => {
  const pod = objectOf(POD, { spec: { nodeName: "n", ...spec }, status: { phase } });
  expect(POD.strategy.graceSeconds?.(pod, asked)).toBe(want);
});

test.each([
  "spec.nodeName",
  "spec.restartPolicy",
  "spec.schedulerName",
  "spec.serviceAccountName",
  "status.phase",
  "status.podIP",
  "status.nominatedNodeName",
])("pods can be selected by %s", (field) => {
  const [of = "", key = ""] = field.split(".");
  const pod = objectOf(POD, { [of]: { [key]: "x" } });
  expect(POD.strategy.selectableFields[field]?.(pod)).toBe("x");
  expect(POD.strategy.selectableFields[field]?.(objectOf(POD))).toBe("");
});

const NO_PERCENT =
  "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";

test.each<{ name: string; given: Fields; want: readonly string[] }>([
  { name: "nothing", given: {}, want: [] },
  { name: "a number", given: { minAvailable: 0 }, want: [] },
  { name: "a part", given: { maxUnavailable: "100%" }, want: [] },
  {
    name: "both",
    given: { minAvailable: 1, maxUnavailable: 1 },
    want: [
      'spec: Invalid value: {"minAvailable":1,"maxUnavailable":1}: minAvailable and maxUnavailable cannot be both set',
    ],
  },
  {
    name: "a negative number",
    given: { minAvailable: -1 },
    want: ["spec.minAvailable: Invalid value: -1: must be greater than or equal to 0"],
  },
  ...["1", "%", "-1%", "1%%", "a1%"].map((text) => ({
    name: `the text ${text}`,
    given: { maxUnavailable: text },
    want: [`spec.maxUnavailable: Invalid value: "${text}": ${NO_PERCENT}`],
  })),
  {
    name: "an invalid selector",
    given: { selector: { matchExpressions: [{ key: "a", operator: "Like" }] } },
    want: [
      'spec.selector.matchExpressions[0].operator: Invalid value: "Like": not a valid selector operator',
    ],
  },
])("a disruption budget with $name", ({ given, want }) => {
  expect(refusals(POD_DISRUPTION_BUDGET, { spec: given })).toEqual(want);
});

test("a new disruption budget allows no disruptions yet", () => {
  expect(created(POD_DISRUPTION_BUDGET, { status: { disruptionsAllowed: 5 } })["status"]).toEqual({
    currentHealthy: 0,
    desiredHealthy: 0,
    disruptionsAllowed: 0,
    expectedPods: 0,
  });
});
