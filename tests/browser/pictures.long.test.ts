// SPDX-License-Identifier: Apache-2.0
// Pictures for README and docs/panel.md: `npm run pictures` stores them, every other run only takes them.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { createBench } from "./bench.ts";
import { SMALL } from "./panel-page.ts";

const { open } = createBench();
const root = join(import.meta.dirname, "../..");
const directory = join(root, process.env["PICTURES"] ?? ".cache/pictures");
mkdirSync(directory, { recursive: true });

async function expectPicture(page: Page, name: string): Promise<void> {
  await page.waitForSelector(".plug");
  const path = join(directory, `${name}.png`);
  const bytes = await page.screenshot({ path, animations: "disabled", caret: "hide" });
  expect(bytes.length).toBeLessThan(250_000);
}

const SHORT = { width: 1280, height: 830 };

test("the rack", async () => {
  await using panel = await open(undefined, { viewport: SHORT });
  await expectPicture(panel.page, "panel");
});

test("the rack in dark mode with faults", async () => {
  await using panel = await open(undefined, { viewport: SHORT, scheme: "dark" });
  await panel.page.getByRole("button", { name: /^interface uplink/ }).click();
  await expectPicture(panel.page, "panel-trouble");
});

test("changes before Apply", async () => {
  await using panel = await open(undefined, { viewport: SHORT });
  const { page } = panel;
  await page.getByRole("button", { name: /^db (Free socket|Full)/ }).click();
  await page.locator(".pick-network", { hasText: "default/front" }).click();
  await page.getByRole("button", { name: /^test (Free socket|Full)/ }).click({ force: true });
  await page.locator(".pick-network", { hasText: "default/storage" }).click();
  await page.locator(".badge-start").waitFor();
  await expectPicture(page, "panel-changes");
});

test("on a phone", async () => {
  await using panel = await open(undefined, { viewport: SMALL });
  await expectPicture(panel.page, "panel-small");
});
