// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import type { Fields } from "../../objects/json.ts";
import { objectOf, refusals, withDefaults } from "../../testing/judge.ts";
import { PERSISTENT_VOLUME_CLAIM } from "../storage/persistent-volume-claim.ts";
import { POD } from "../workload/pod.ts";
import {
  LIMIT_RANGE,
  describeClaimFaults,
  describePodFaults,
  setContainerDefaults,
} from "./limit-range.ts";

const aPod = (...containers: readonly Fields[]) => objectOf(POD, { spec: { containers } });
const container = (resources: Fields, name = "c") => ({ name, resources });

test.each<{ given: Fields; want: Fields }>([
  {
    given: { max: { cpu: "2" } },
    want: { max: { cpu: "2" }, default: { cpu: "2" }, defaultRequest: { cpu: "2" } },
  },
  {
    given: { min: { cpu: "1" }, default: { memory: "1Gi" } },
    want: {
      min: { cpu: "1" },
      default: { memory: "1Gi" },
      defaultRequest: { cpu: "1", memory: "1Gi" },
    },
  },
  {
    given: { default: { cpu: "2" }, defaultRequest: { cpu: "1" } },
    want: { default: { cpu: "2" }, defaultRequest: { cpu: "1" } },
  },
])("a limit $given of containers is stored as $want", ({ given, want }) => {
  const limits = (limit: Fields) => ({ spec: { limits: [{ type: "Container", ...limit }] } });
  expect(withDefaults(LIMIT_RANGE, limits(given))).toMatchObject(limits(want));
  const podLimits = { spec: { limits: [{ type: "Pod", ...given }] } };
  expect(withDefaults(LIMIT_RANGE, podLimits)).toEqual(objectOf(LIMIT_RANGE, podLimits));
});

test("sets what containers do not specify, and lists it in an annotation", () => {
  const pod = aPod(container({ requests: { cpu: "2" } }, "a"), container({}, "b"));
  Object.assign(pod["spec"] as Fields, { initContainers: [container({}, "i")] });
  setContainerDefaults(pod, [
    { type: "Pod", default: { cpu: "9" } },
    { type: "Container", defaultRequest: { memory: "1Mi", cpu: "1" }, default: { cpu: "3" } },
  ]);
  const resources = { requests: { cpu: "1", memory: "1Mi" }, limits: { cpu: "3" } };
  expect(pod["spec"]).toEqual({
    containers: [
      container({ requests: { cpu: "2", memory: "1Mi" }, limits: { cpu: "3" } }, "a"),
      container(resources, "b"),
    ],
    initContainers: [container(resources, "i")],
  });
  expect(pod.metadata.annotations).toEqual({
    "kubernetes.io/limit-ranger":
      "LimitRanger plugin set: memory request for container a; cpu limit for container a; " +
      "cpu, memory request for container b; cpu limit for container b; " +
      "cpu, memory request for init container i; cpu limit for init container i",
  });
});

test("does not change a pod that specifies everything", () => {
  const pod = aPod(container({ requests: { cpu: "2" } }));
  setContainerDefaults(pod, [{ type: "Container", defaultRequest: { cpu: "1" } }]);
  expect(pod).toEqual(aPod(container({ requests: { cpu: "2" } })));
});

const requests = (cpu: string) => ({ requests: { cpu } });
const both = (request: string, limit: string) => ({
  requests: { cpu: request },
  limits: { cpu: limit },
});

test.each<{ limit: Fields; resources: Fields; want: string | undefined }>([
  { limit: { min: { cpu: "1" } }, resources: requests("1"), want: undefined },
  {
    limit: { min: { cpu: "1" } },
    resources: {},
    want: "minimum cpu usage per Container is 1.  No request is specified",
  },
  {
    limit: { min: { cpu: "1" } },
    resources: requests("500m"),
    want: "minimum cpu usage per Container is 1, but request is 500m",
  },
  {
    limit: { min: { cpu: "1" } },
    resources: both("1", "100m"),
    want: "minimum cpu usage per Container is 1, but limit is 100m",
  },
  { limit: { max: { cpu: "1" } }, resources: both("1", "1"), want: undefined },
  {
    limit: { max: { cpu: "1" } },
    resources: requests("1"),
    want: "maximum cpu usage per Container is 1.  No limit is specified",
  },
  {
    limit: { max: { cpu: "1" } },
    resources: both("1", "1500m"),
    want: "maximum cpu usage per Container is 1, but limit is 1500m",
  },
  {
    limit: { max: { cpu: "1" } },
    resources: both("2", "1"),
    want: "maximum cpu usage per Container is 1, but request is 2",
  },
  { limit: { maxLimitRequestRatio: { cpu: "2" } }, resources: both("1", "2"), want: undefined },
  {
    limit: { maxLimitRequestRatio: { cpu: "1500m" } },
    resources: both("1", "2"),
    want: "cpu max limit to request ratio per Container is 1500m, but provided ratio is 2.000000",
  },
  {
    limit: { maxLimitRequestRatio: { cpu: "2" } },
    resources: {},
    want: "cpu max limit to request ratio per Container is 2, but no request is specified or request is 0",
  },
  {
    limit: { maxLimitRequestRatio: { cpu: "2" } },
    resources: requests("1"),
    want: "cpu max limit to request ratio per Container is 2, but no limit is specified or limit is 0",
  },
])("$limit judges a container with $resources: $want", ({ limit, resources, want }) => {
  const limits = [{ type: "Container", ...limit }];
  expect(describePodFaults(aPod(container(resources)), limits)).toBe(want);
});

test("limits of type Pod apply to the sum, and several faults are a list", () => {
  const pod = aPod(container(both("1", "1")), container(both("1", "1"), "d"));
  expect(describePodFaults(pod, [{ type: "Pod", max: { cpu: "2" } }])).toBeUndefined();
  const limits = [{ type: "Pod", max: { cpu: "1" }, min: { memory: "1" } }];
  expect(describePodFaults(pod, limits)).toBe(
    "[minimum memory usage per Pod is 1.  No request is specified, maximum cpu usage per Pod is 1, but limit is 2]",
  );
});

test("reports at most eight faults", () => {
  const names = Array.from({ length: 20 }, (_, index) => `x.io/r${String(index)}`);
  const min = Object.fromEntries(names.map((name) => [name, "1"]));
  const text = describePodFaults(aPod(container({})), [{ type: "Container", min }]) ?? "";
  expect(text.split("No request is specified")).toHaveLength(9);
});

test.each([
  { storage: "1Gi", want: undefined },
  {
    storage: "5Gi",
    want: "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 5Gi",
  },
  {
    storage: "1Mi",
    want: "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi",
  },
  {
    storage: undefined,
    want: "[minimum storage usage per PersistentVolumeClaim is 1Gi.  No request is specified, maximum storage usage per PersistentVolumeClaim is 2Gi.  No request is specified]",
  },
])("a claim of $storage is judged: $want", ({ storage, want }) => {
  const spec = { resources: { requests: storage === undefined ? {} : { storage } } };
  const claim = objectOf(PERSISTENT_VOLUME_CLAIM, { spec });
  const limits = [
    { type: "PersistentVolumeClaim", min: { storage: "1Gi" }, max: { storage: "2Gi" } },
    { type: "Container", min: { cpu: "1" } },
  ];
  expect(describeClaimFaults(claim, limits)).toBe(want);
});

const PATH = "spec.limits[0]";

test.each<{ limit: Fields; want: readonly string[] }>([
  { limit: { type: "Container", min: { cpu: "1" }, max: { cpu: "2" } }, want: [] },
  {
    limit: { type: "Pod", min: { cpu: "2" }, max: { cpu: "1" } },
    want: [`${PATH}.min[cpu]: Invalid value: "2": min value 2 is greater than max value 1`],
  },
  {
    limit: { type: "Container", default: { cpu: "1" }, defaultRequest: { cpu: "2" } },
    want: [
      `${PATH}.defaultRequest[cpu]: Invalid value: "2": default request value 2 is greater than default value 1`,
    ],
  },
  {
    limit: { type: "Pod", default: { cpu: "1" } },
    want: [`${PATH}.default: Forbidden: may not be specified when \`type\` is 'Pod'`],
  },
  {
    limit: { type: "PersistentVolumeClaim" },
    want: [
      `${PATH}.limits: Required value: either minimum or maximum storage value is required, but neither was provided`,
    ],
  },
  {
    limit: { type: "Pod", maxLimitRequestRatio: { cpu: "500m" } },
    want: [`${PATH}.maxLimitRequestRatio[cpu]: Invalid value: "500m": ratio 500m is less than 1`],
  },
  {
    limit: {
      type: "Pod",
      min: { cpu: "1" },
      max: { cpu: "2" },
      maxLimitRequestRatio: { cpu: "3" },
    },
    want: [
      `${PATH}.maxLimitRequestRatio[cpu]: Invalid value: "3": ratio 3 is greater than max/min = 2.000000`,
    ],
  },
  {
    limit: { type: "a b" },
    want: [expect.stringContaining(`${PATH}.type: Invalid value: "a b"`) as string],
  },
])("a limit $limit is refused for $want", ({ limit, want }) => {
  expect(refusals(LIMIT_RANGE, { spec: { limits: [limit] } })).toEqual(want);
});

test("a type appears once", () => {
  const limits = [{ type: "Pod" }, { type: "Pod" }];
  expect(refusals(LIMIT_RANGE, { spec: { limits } })).toEqual([
    'spec.limits[1].type: Duplicate value: "Pod"',
  ]);
});
