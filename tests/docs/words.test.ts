// SPDX-License-Identifier: Apache-2.0
// The documents and the code use the same codes, reasons, phases and names.
import { names, type IfacePhase, type VmiPhase } from "@patchbay/api";
import { CATALOGUE } from "@patchbay/base";
import { describe, expect, test } from "vitest";
import { findCodeSpans, listDocuments, printMention, readText } from "./documents.ts";

const documents = listDocuments();
const codes = Object.keys(CATALOGUE);

/** The compiler ensures completeness. */
const IFACE_PHASES: Readonly<Record<IfacePhase, true>> = {
  Pending: true,
  PodAttaching: true,
  Wiring: true,
  Attaching: true,
  Ready: true,
  PodSwapping: true,
  Switching: true,
  Detaching: true,
  Unwiring: true,
  PodDetaching: true,
};
const RUN_PHASES: Readonly<Record<Exclude<VmiPhase, "" | "Unknown">, true>> = {
  Pending: true,
  Scheduling: true,
  Scheduled: true,
  Running: true,
  Succeeded: true,
  Failed: true,
};

/** Quoted CamelCase words of at least two parts, such as reasons. */
function quotedReasons(path: string): readonly string[] {
  const words = readText(path).matchAll(/"([A-Z][a-z]+(?:[A-Z][a-z]+)+)"/g);
  return [...new Set([...words].map(([, word = ""]) => word))];
}

describe("error codes", () => {
  test("the reference lists each code", () => {
    const page = readText("docs/reference/errors.md");
    expect(codes.filter((code) => !page.includes(`\`${code}\``))).toEqual([]);
  });

  test("the catalog contains each code that a document names", () => {
    const prefixes = [...new Set(codes.map((code) => code.split("_")[0] ?? ""))];
    // Environment variables look alike and are on the page of flags.
    const isCode = new RegExp(`^(${prefixes.join("|")})_[A-Z_]+$`);
    const named = findCodeSpans(documents).filter(
      ({ document, text }) => isCode.test(text) && document !== "docs/reference/config.md",
    );
    expect(named.length).toBeGreaterThan(codes.length);
    expect(named.filter(({ text }) => !codes.includes(text)).map(printMention)).toEqual([]);
  });
});

describe("phases and reasons", () => {
  const page = readText("docs/reference/phases.md");

  test.each(Object.keys(IFACE_PHASES))("explains phase %s of an iface", (phase) => {
    expect(page).toContain(`\`${phase}\``);
  });

  test.each(Object.keys(RUN_PHASES))("explains phase %s of a VMI", (phase) => {
    expect(page).toContain(`\`${phase}\``);
  });

  test.each([
    "packages/control-plane/core/src/status/blocked-reason.ts",
    "packages/control-plane/core/src/reasons/of-error.ts",
    "packages/control-plane/net-agent/src/reconcilers/pod/index.ts",
    "packages/control-plane/net-agent/src/reconcilers/pod/report.ts",
    "packages/control-plane/virt-handler/src/reconcilers/vmi/report.ts",
  ])("explains the reasons of %s", (path) => {
    const explained = page + readText("docs/reference/reasons.md");
    const reasons = quotedReasons(path);
    expect(reasons.length).toBeGreaterThan(1);
    expect(reasons.filter((reason) => !explained.includes(`\`${reason}\``))).toEqual([]);
  });
});

describe("annotations, labels and finalizers", () => {
  const page = readText("docs/reference/annotations.md");
  const texts = Object.entries(names).flatMap(([name, value]) =>
    /_(ANNOTATION|LABEL|FINALIZER|RESOURCE)$/.test(name) ? [String(value)] : [],
  );

  test("explains each key", () => {
    expect(texts.length).toBeGreaterThan(5);
    expect(texts.filter((text) => !page.includes(`\`${text}\``))).toEqual([]);
  });
});
