// SPDX-License-Identifier: Apache-2.0
import type { AttachmentError } from "@patchbay/api/annotations";
import { AppError, minRetryDelayMs } from "@patchbay/base";
import type { Step } from "@patchbay/kube";
import { expect, test } from "vitest";
import { createFailures, type Failures } from "./failures.ts";

const STEP = { scope: "uid-1", name: "add net1", inputs: "blue" };
const OTHER = { ...STEP, name: "add net2" };
const REFUSED = new AppError("CNI_PLUGIN_FAILED", {
  plugin: "ptp",
  command: "ADD",
  message: "no",
  cniCode: 999,
});

class Scene {
  nowMs = 0;
  readonly failures: Failures = createFailures({
    now: () => this.nowMs,
    monotonicMs: () => this.nowMs,
    sleep: () => Promise.resolve(),
  });
}

function refusedWith(details: {
  plugin?: string;
  command?: string;
  message?: string;
  cniCode?: number;
}): AppError {
  return new AppError("CNI_PLUGIN_FAILED", { ...REFUSED.details, ...details });
}

/** Fails the step. Returns the reported error and the backoff in milliseconds. */
function fail(
  failures: Failures,
  step: Step,
  ...[thrown, network]: readonly [unknown, string?]
): { readonly error: AttachmentError; readonly pauseMs: number } {
  const explained = failures.explain(step, thrown, network);
  const pauseMs = failures.fail(step, { ...explained, minDelayMs: minRetryDelayMs(thrown) });
  return { error: explained.summary, pauseMs };
}

test.each([
  ["CNI_NETWORK_NOT_FOUND", "NetworkNotFound"],
  ["CNI_NETWORK_FORBIDDEN", "NetworkForbidden"],
  ["CNI_CONFIG_INVALID", "NetworkInvalid"],
  ["CNI_REQUEST_INVALID", "RequestInvalid"],
  ["CNI_REQUEST_NOT_MET", "RequestNotMet"],
  ["CNI_NAME_TAKEN", "InterfaceNameTaken"],
  ["CNI_TIMED_OUT", "CniFailed"],
] as const)("%s is reported as %s", (code, reason) => {
  const error = new AppError(code, {});
  const told = fail(new Scene().failures, STEP, error, "ns1/a").error;
  expect(told.reason).toBe(reason);
  expect(told.message).toContain(error.message);
});

test("reports an unknown error unchanged", () => {
  const { error } = fail(new Scene().failures, STEP, new TypeError("x is undefined"));
  expect(error).toEqual({ reason: "CniFailed", message: "x is undefined" });
});

test("backs off from a failed step and holds it with the reported message", () => {
  const { failures } = new Scene();
  const { error, pauseMs } = fail(failures, STEP, REFUSED);
  expect(pauseMs).toBeLessThanOrEqual(1000);
  expect(failures.findDelay(STEP)).toMatchObject({ summary: error, pauseMs });
  expect(failures.findDelay(OTHER)).toBeUndefined();
});

test("backs off for a minute from a failure that only a change can fix", () => {
  const { failures } = new Scene();
  const missing = new AppError("CNI_NETWORK_NOT_FOUND", { network: "ns1/a" });
  expect(fail(failures, STEP, missing).pauseMs).toBe(60_000);
});

test.each([
  { name: "a different message", next: refusedWith({ message: "never" }), isNew: false },
  { name: "another plugin", next: refusedWith({ plugin: "bridge" }), isNew: true },
  { name: "another command", next: refusedWith({ command: "DEL" }), isNew: true },
  { name: "a different CNI code", next: refusedWith({ cniCode: 11 }), isNew: true },
  {
    name: "another error",
    next: new AppError("CNI_TIMED_OUT", { ...REFUSED.details }),
    isNew: true,
  },
  { name: "an unknown error", next: new TypeError("x"), isNew: true },
  { name: "other inputs", next: REFUSED, inputs: "red", isNew: true },
  { name: "the same error after ten minutes", next: REFUSED, afterMs: 600_000, isNew: true },
  { name: "the same error within ten minutes", next: REFUSED, afterMs: 599_999, isNew: false },
])("$name: reported again: $isNew", ({ next, inputs = "blue", afterMs = 0, isNew }) => {
  const scene = new Scene();
  scene.nowMs = 1_000_000;
  const first = fail(scene.failures, STEP, REFUSED).error;
  scene.nowMs += afterMs;
  const second = fail(scene.failures, { ...STEP, inputs }, next).error;
  expect(second === first).toBe(!isNew);
});

test("distinguishes unknown errors by their kind, whatever value was thrown", () => {
  const { failures } = new Scene();
  const first = fail(failures, STEP, new TypeError("x")).error;
  expect(fail(failures, STEP, new TypeError("y")).error).toBe(first);
  expect(fail(failures, STEP, new RangeError("z")).error).not.toBe(first);
  expect(fail(failures, STEP, "text").error).toEqual({ reason: "CniFailed", message: "text" });
});

test("remembers the last report of a step after its backoff has ended", () => {
  const scene = new Scene();
  expect(scene.failures.lastReport(STEP)).toBeUndefined();
  const { error } = fail(scene.failures, STEP, REFUSED);
  scene.nowMs += 100_000;
  expect(scene.failures.findDelay(STEP)).toBeUndefined();
  expect(scene.failures.lastReport(STEP)).toBe(error);
  expect(scene.failures.lastReport(OTHER)).toBeUndefined();
});

test("starts afresh after a success", () => {
  const { failures } = new Scene();
  const first = fail(failures, STEP, REFUSED);
  fail(failures, STEP, REFUSED);
  failures.succeed(STEP);
  expect(failures.findDelay(STEP)).toBeUndefined();
  expect(failures.lastReport(STEP)).toBeUndefined();
  const next = fail(failures, STEP, refusedWith({ message: "never" }));
  expect(next.error).not.toBe(first.error);
  expect(next.pauseMs).toBeLessThanOrEqual(1000);
});

test("forgets steps that are no longer planned, but not those of other pods", () => {
  const { failures } = new Scene();
  const elsewhere = { ...STEP, scope: "uid-2" };
  for (const step of [STEP, OTHER, elsewhere]) fail(failures, step, REFUSED);
  failures.retain("uid-1", [OTHER.name]);
  failures.retain("uid-3", []);
  const known = [STEP, OTHER, elsewhere].map((step) => [
    failures.lastReport(step) !== undefined,
    failures.findDelay(step) !== undefined,
  ]);
  expect(known).toEqual([
    [false, false],
    [true, true],
    [true, true],
  ]);
});

test("has no failures for a forgotten pod", () => {
  const { failures } = new Scene();
  fail(failures, STEP, REFUSED);
  failures.forget("uid-1");
  expect([failures.lastReport(STEP), failures.findDelay(STEP)]).toEqual([undefined, undefined]);
});

test("treats a plan error as new until it is reported", () => {
  const { failures } = new Scene();
  const found = { reason: "HostNetwork", message: "no" };
  expect(failures.recordIfNew(STEP, found)).toBe(true);
  expect(failures.recordIfNew(STEP, { ...found })).toBe(false);
  expect(failures.recordIfNew(STEP, { ...found, message: "never" })).toBe(true);
  expect(failures.recordIfNew(STEP, { ...found, reason: "Other" })).toBe(true);
});
