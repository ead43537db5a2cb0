// SPDX-License-Identifier: Apache-2.0
import { names } from "@patchbay/api";
import type { AttachmentError, NetworkStatus } from "@patchbay/api/annotations";
import { expect, test } from "vitest";
import { buildAnnotationPatch, findChangedAnnotations } from "./report.ts";

const STATUS = names.NETWORK_STATUS_ANNOTATION;
const ERRORS = names.ATTACHMENT_ERRORS_ANNOTATION;
const GATEWAYS = names.CNI_GATEWAYS_ANNOTATION;
const STATUS_PATH = "/metadata/annotations/k8s.v1.cni.cncf.io~1network-status";
const ERRORS_PATH = "/metadata/annotations/patchbay.io~1attachment-errors";
const ENTRY: NetworkStatus = { name: "ns1/a", interface: "net1", dns: {} };
const FAILED: ReadonlyMap<string, AttachmentError> = new Map([
  ["net2", { reason: "CniFailed", message: "no" }],
]);
const FAILED_TEXT = '{"net2":{"reason":"CniFailed","message":"no"}}';

const POD = { uid: "uid-1", resourceVersion: "7" };
const UID_TEST = { op: "test", path: "/metadata/uid", value: "uid-1" };
const VERSION_TEST = { op: "test", path: "/metadata/resourceVersion", value: "7" };

test.each([
  {
    name: "none if nothing changed",
    current: { [STATUS]: ` [${JSON.stringify(ENTRY)}]`, [ERRORS]: FAILED_TEXT },
    want: {},
  },
  {
    name: "both if neither exists",
    current: {},
    want: { [STATUS]: JSON.stringify([ENTRY]), [ERRORS]: FAILED_TEXT },
  },
  {
    name: "only the errors",
    current: { [STATUS]: JSON.stringify([ENTRY]), [ERRORS]: "{}" },
    want: { [ERRORS]: FAILED_TEXT },
  },
  {
    name: "only the status",
    current: { [STATUS]: "[]", [ERRORS]: FAILED_TEXT },
    want: { [STATUS]: JSON.stringify([ENTRY]) },
  },
])("writes annotations that changed: $name", ({ current, want }) => {
  const networks = { entries: [ENTRY], errors: FAILED, gateways: {} };
  const changed = findChangedAnnotations(current, networks);
  expect(Object.keys(changed)).toEqual(Object.keys(want));
  expect(JSON.parse(changed[STATUS] ?? "[]")).toEqual(STATUS in want ? [ENTRY] : []);
  expect(changed[ERRORS]).toBe(want[ERRORS]);
});

test("removes errors that are resolved", () => {
  const current = { [STATUS]: JSON.stringify([ENTRY]), [ERRORS]: FAILED_TEXT };
  const networks = { entries: [ENTRY], errors: new Map(), gateways: {} };
  expect(findChangedAnnotations(current, networks)).toStrictEqual({ [ERRORS]: undefined });
});

const GATEWAYS_TEXT = '{"net1":["10.9.0.254"],"net2":["fd00::1"]}';

test.each([
  { name: "new gateways", current: {}, want: { [GATEWAYS]: GATEWAYS_TEXT } },
  { name: "nothing if they are the same", current: { [GATEWAYS]: GATEWAYS_TEXT }, want: {} },
  {
    name: "no gateways of detached NICs",
    current: { [GATEWAYS]: GATEWAYS_TEXT },
    gateways: {},
    want: { [GATEWAYS]: undefined },
  },
])("reports $name", ({ current, want, gateways }) => {
  const found = { net2: ["fd00::1"], net1: ["10.9.0.254"], net3: [] };
  const networks = { entries: [], errors: new Map(), gateways: gateways ?? found };
  const status = { [STATUS]: "[]", ...current };
  expect(findChangedAnnotations(status, networks)).toStrictEqual(want);
});

test.each([
  {
    name: "for a pod without annotations",
    annotations: undefined,
    changed: { [STATUS]: "[]" },
    want: [
      UID_TEST,
      VERSION_TEST,
      { op: "add", path: "/metadata/annotations", value: {} },
      { op: "add", path: STATUS_PATH, value: "[]" },
    ],
  },
  {
    name: "for a missing annotation",
    annotations: { [ERRORS]: "{}" },
    changed: { [STATUS]: "[]", [ERRORS]: FAILED_TEXT },
    want: [
      UID_TEST,
      VERSION_TEST,
      { op: "add", path: STATUS_PATH, value: "[]" },
      { op: "test", path: ERRORS_PATH, value: "{}" },
      { op: "add", path: ERRORS_PATH, value: FAILED_TEXT },
    ],
  },
  {
    name: "for an existing annotation",
    annotations: { [STATUS]: "[]" },
    changed: { [STATUS]: "[1]" },
    want: [
      UID_TEST,
      { op: "test", path: STATUS_PATH, value: "[]" },
      { op: "add", path: STATUS_PATH, value: "[1]" },
    ],
  },
  {
    name: "for a removed annotation",
    annotations: { [ERRORS]: FAILED_TEXT },
    changed: { [ERRORS]: undefined },
    want: [
      UID_TEST,
      { op: "test", path: ERRORS_PATH, value: FAILED_TEXT },
      { op: "remove", path: ERRORS_PATH },
    ],
  },
])("tests the values that it has read: $name", ({ annotations, changed, want }) => {
  expect(buildAnnotationPatch({ ...POD, annotations }, changed)).toEqual(want);
});
