// SPDX-License-Identifier: Apache-2.0
// Accessibility: screen readers, phones and dark mode.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import type { Page } from "playwright-core";
import { describe, expect, test } from "vitest";
import { createBench } from "./bench.ts";
import { SMALL, WIDE } from "./panel-page.ts";

const { open } = createBench();
const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

interface Found {
  readonly violations: readonly {
    readonly id: string;
    readonly nodes: readonly { readonly html: string; readonly failureSummary?: string }[];
  }[];
}

/** Violations that axe finds, by rule, with the first location of each. */
async function findFaults(page: Page): Promise<readonly string[]> {
  // Injected by the debugger, because the page's policy allows no scripts.
  await page.evaluate(AXE);
  const found = await page.evaluate<Found>("axe.run(document, { resultTypes: ['violations'] })");
  return found.violations.map(({ id, nodes }) => {
    const [first] = nodes;
    return `${id}: ${first?.html.slice(0, 200) ?? ""} ${first?.failureSummary?.slice(0, 300) ?? ""}`;
  });
}

const LOOKS = [
  { name: "wide, light", viewport: WIDE, scheme: "light" },
  { name: "wide, dark", viewport: WIDE, scheme: "dark" },
  { name: "small, light", viewport: SMALL, scheme: "light" },
  { name: "small, dark", viewport: SMALL, scheme: "dark" },
] as const;

describe.each(LOOKS)("$name", (look) => {
  test("axe finds no violations in rack, details, changes and form; nothing is wider than the window", async () => {
    await using panel = await open(undefined, look);
    const { page } = panel;
    await page.waitForSelector(".plug");
    expect(await findFaults(page)).toEqual([]);
    await page.getByRole("button", { name: /^db (Free socket|Full)/ }).click();
    await page.locator(".pick-network").first().click();
    await page.locator(".badge-live").waitFor();
    await page.getByText("Do the same by hand").click();
    expect(await findFaults(page)).toEqual([]);
    await page.getByRole("button", { name: "Drop all" }).click();
    await page.getByRole("button", { name: /^interface uplink/ }).click({ force: true });
    expect(await findFaults(page)).toEqual([]);
    const widths = await page.evaluate("[document.documentElement.scrollWidth, innerWidth]");
    expect(widths).toEqual([look.viewport.width, look.viewport.width]);
    await page.getByRole("button", { name: "Close details" }).click();
    await page.getByRole("button", { name: "New VM" }).click();
    expect(await findFaults(page)).toEqual([]);
  });
});
