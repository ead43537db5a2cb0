// SPDX-License-Identifier: Apache-2.0
// What is left alone for long, and what stops other steps?
import { expect, test } from "vitest";
import { AppError } from "./app-error.ts";
import { isDomainBusy, leastPauseMs } from "./least-pause.ts";

test.each([
  { name: "what another try may mend", error: new AppError("LIBVIRT_TIMED_OUT"), want: 0 },
  { name: "what nobody knows", error: new Error("odd"), want: 0 },
  { name: "what waits for a change", error: new AppError("LIBVIRT_NO_FREE_PORT"), want: 60_000 },
])("$name is left alone for $want ms at least", ({ error, want }) => {
  expect(leastPauseMs(error)).toBe(want);
});

test.each([
  { name: "while another job has it", error: new AppError("LIBVIRT_BUSY"), want: true },
  { name: "while it migrates", error: new AppError("LIBVIRT_MIGRATING"), want: true },
  {
    name: "not where it has no free port",
    error: new AppError("LIBVIRT_NO_FREE_PORT"),
    want: false,
  },
  { name: "not where something else went wrong", error: new Error("odd"), want: false },
])("a domain is busy $name", ({ error, want }) => {
  expect(isDomainBusy(error)).toBe(want);
});
