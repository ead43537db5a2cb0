// SPDX-License-Identifier: Apache-2.0
// What does an error say, and when is it tried again?
import { describe, expect, test } from "vitest";
import {
  AppError,
  isAppError,
  messageOf,
  findRetryRule,
  isDomainBusy,
  minRetryDelayMs,
} from "./app-error.ts";

const CAUSE = new Error("why");
const MISSING = new AppError("LIBVIRT_DEVICE_MISSING", { device: "ua-a" }, { cause: CAUSE });

describe("an error", () => {
  test("fills in the catalog's message and retains details and cause", () => {
    expect(MISSING.message).toBe("the domain has no device ua-a");
    expect(MISSING).toMatchObject({
      name: "AppError",
      code: "LIBVIRT_DEVICE_MISSING",
      details: { device: "ua-a" },
      cause: CAUSE,
    });
  });

  test.each([
    {
      name: "several details",
      details: { call: "detach", timeoutMs: 5 },
      want: "detach within 5 ms",
    },
    { name: "missing details", details: undefined, want: "unknown within unknown ms" },
  ])("formats $name", ({ details, want }) => {
    expect(new AppError("LIBVIRT_TIMED_OUT", details).message).toBe(
      `libvirt did not answer ${want}`,
    );
  });
});

describe("isAppError recognizes an error", () => {
  test.each([
    { name: "by its class", error: MISSING, code: undefined, want: true },
    { name: "by its code", error: MISSING, code: "LIBVIRT_DEVICE_MISSING" as const, want: true },
    {
      name: "not by another code",
      error: MISSING,
      code: "LIBVIRT_TIMED_OUT" as const,
      want: false,
    },
    { name: "not an Error of another class", error: CAUSE, code: undefined, want: false },
    {
      name: "not an object with only the code",
      error: { code: "LIBVIRT_TIMED_OUT" },
      code: "LIBVIRT_TIMED_OUT" as const,
      want: false,
    },
  ])("$name", ({ error, code, want }) => {
    expect(isAppError(error, code)).toBe(want);
  });
});

test.each([
  {
    name: "as the catalog specifies",
    error: new AppError("LIBVIRT_NO_FREE_PORT"),
    want: "on-change",
  },
  { name: "with backoff if it is unknown", error: CAUSE, want: "backoff" },
])("an error is retried $name", ({ error, want }) => {
  expect(findRetryRule(error)).toBe(want);
});

test.each([
  { thrown: CAUSE, want: "why" },
  { thrown: "words", want: "words" },
  { thrown: undefined, want: "undefined" },
])("messageOf returns the message of $thrown", ({ thrown, want }) => {
  expect(messageOf(thrown)).toBe(want);
});

test.each([
  { name: "a temporary error", error: new AppError("LIBVIRT_TIMED_OUT"), want: 0 },
  { name: "an unknown error", error: new Error("odd"), want: 0 },
  {
    name: "an error that waits for a change",
    error: new AppError("LIBVIRT_NO_FREE_PORT"),
    want: 60_000,
  },
])("$name is not retried for at least $want ms", ({ error, want }) => {
  expect(minRetryDelayMs(error)).toBe(want);
});

test.each([
  { name: "while another job runs", error: new AppError("LIBVIRT_BUSY"), want: true },
  { name: "while it migrates", error: new AppError("LIBVIRT_MIGRATING"), want: true },
  {
    name: "not when it lacks a free port",
    error: new AppError("LIBVIRT_NO_FREE_PORT"),
    want: false,
  },
  { name: "not after any other error", error: new Error("odd"), want: false },
])("a domain is busy $name", ({ error, want }) => {
  expect(isDomainBusy(error)).toBe(want);
});
