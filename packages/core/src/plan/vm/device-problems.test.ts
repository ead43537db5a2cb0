// SPDX-License-Identifier: Apache-2.0
// Which devices is no domain made with?
import type { VmiSpec } from "@patchbay/api";
import { describe, expect, test } from "vitest";
import { deviceProblems } from "./device-problems.ts";

type Domain = VmiSpec["domain"];

describe("a guest is not started", () => {
  test.each<{ domain: Domain; field: string; message: string }>([
    {
      domain: { ioThreadsPolicy: "supplementalPool" },
      field: "ioThreadsPolicy",
      message: "supplementalPool is not supported, use shared or auto",
    },
    {
      domain: { devices: { video: { type: "qxl" } } },
      field: "devices.video.type",
      message: "qxl is not supported, use vga or bochs or cirrus or virtio",
    },
    {
      domain: { devices: { watchdog: { name: "w" } } },
      field: "devices.watchdog.i6300esb",
      message: "is required: no other model is there",
    },
  ])("with $domain: $field", ({ domain, field, message }) => {
    expect(deviceProblems({ domain }, "spec")).toEqual([
      { field: `spec.domain.${field}`, message },
    ]);
  });
});

test.each<Domain>([
  {},
  { ioThreadsPolicy: "auto", devices: { video: {} } },
  { devices: { video: { type: "virtio" }, watchdog: { name: "w", i6300esb: {} } } },
])("nothing is wrong with %o", (domain) => {
  expect(deviceProblems({ domain }, "spec")).toEqual([]);
});
