// SPDX-License-Identifier: Apache-2.0
import { expect, test } from "vitest";
import { printDoctorReports } from "./doctor-report.ts";

test("prints hops in a column, with a fix at the first dead hop", () => {
  const text = printDoctorReports([
    {
      vmi: "default/alpha",
      interface: "blue",
      firstDead: "tap",
      milliseconds: 9,
      isUnplugReason: true,
      hops: [
        { hop: "guest", state: "unknown", why: "no agent" },
        { hop: "device", name: "02:00:00:00:00:01", state: "ok", why: "its link is up" },
        ...(["tap", "podNic"] as const)
          .map((hop) => ({
            hop,
            state: "dead",
            reason: "TapDown",
            why: "it is\u001b down",
            fix: "set it up",
          }))
          .map((hop) => ({ ...hop, state: "dead" as const })),
        { hop: "translation", state: "notApplicable", why: "bridged" },
      ],
    },
  ]);
  expect(text.split("\n")).toEqual([
    "interface blue",
    "  ? guest         no agent",
    "  ✓ device        02:00:00:00:00:01: its link is up",
    "  ✗ tap           it is\\u001b down",
    "                  fix: set it up",
    "  ✗ pod NIC       it is\\u001b down",
    "  · translation   bridged",
    "",
  ]);
});

test("prints what to try for an uncertain hop, if no hop is dead", () => {
  const guest = { hop: "guest", state: "unknown", why: "it is paused", fix: "resume it" } as const;
  const report = {
    vmi: "default/alpha",
    interface: "blue",
    milliseconds: 9,
    isUnplugReason: false,
  };
  const hops = [guest, { hop: "tap", state: "dead", why: "it is down", fix: "set it up" } as const];
  expect(printDoctorReports([{ ...report, hops: [guest] }])).toBe(
    "interface blue\n  ? guest         it is paused\n                  try: resume it\n",
  );
  expect(printDoctorReports([{ ...report, hops, firstDead: "tap" }])).not.toContain("try:");
});
