// SPDX-License-Identifier: Apache-2.0
// A VM made with the panel's form boots: image from the list, an additional disk, and a user who logs in on the console.
import { endTrial, type Machine } from "@patchbay/support";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { addDebianImageTo, DEBIAN_BOOT_MS, DEBIAN_IMAGE } from "../e2e/disks/debian-image.ts";
import { bringUp } from "../e2e/standalone.ts";
import { createBench } from "./bench.ts";
import { openReal, type OpenPanel } from "./panel-page.ts";

const NAME = "fresh";
const USER = "mary";
/** Size of the additional disk: no other disk of the guest has it. */
const DISK = { quantity: "64Mi", bytes: 64 * 1024 * 1024 };
/** Time for an answer of a guest under emulation beside others. */
const SLOW = { timeout: 60_000 };
const BOOT = { timeout: DEBIAN_BOOT_MS };
const bench = createBench();
let machine: Machine;
let panel: OpenPanel;
let page: Page;

beforeAll(async () => {
  const networks = { podSubnet: "10.88.247.0/24", serviceSubnet: "10.114.0.0/16" };
  machine = await bringUp({ apiPort: 16943, bridge: "pbn0", ...networks }, (made) => {
    addDebianImageTo(made);
    return Promise.resolve();
  });
  panel = await openReal(machine, bench.browser());
  page = panel.page;
}, DEBIAN_BOOT_MS);
afterAll(async () => {
  await panel[Symbol.asyncDispose]();
  endTrial(machine);
});

/** Fills the form with the image from its list, and returns the user's generated password. */
async function fillForm(): Promise<string> {
  await page.getByRole("button", { name: "New VM" }).click();
  await page.getByLabel("Name", { exact: true }).fill(NAME);
  const listed = page.locator(`datalist option[value="${DEBIAN_IMAGE}"]`);
  await listed.waitFor({ state: "attached" });
  await page.getByLabel("Image of its disk").fill(DEBIAN_IMAGE);
  await page.getByLabel("Additional persistent disk").fill(DISK.quantity);
  await page.getByLabel("Memory").fill("512Mi");
  await page.getByLabel("User who may log in").fill(USER);
  return page.getByLabel("The user's password").inputValue();
}

/** Types a line on the console, and waits until the guest prints a text. */
async function type(line: string, wanted: RegExp): Promise<void> {
  await page.keyboard.type(`${line}\n`);
  await page.locator(".xterm-accessibility", { hasText: wanted }).waitFor(SLOW);
}

test(
  "the guest of a VM from the form boots, and its user logs in and finds the disk",
  async () => {
    const password = await fillForm();
    await page.getByRole("button", { name: "Gather" }).click();
    await page.locator(".badge-live").waitFor();
    expect(machine.findVm(NAME)).toBeUndefined();
    await page.getByRole("button", { name: "Apply" }).click();
    await page.getByText("All changes are sent").waitFor();
    await page.getByRole("button", { name: "Close", exact: true }).click();
    await page.locator(".unit-state", { hasText: "Running" }).waitFor(BOOT);
    await page.locator(".unit-name", { hasText: NAME }).click();
    await page.getByRole("button", { name: "Console" }).click();
    await page.locator(".xterm-accessibility", { hasText: `${NAME} login:` }).waitFor(BOOT);
    await type(USER, /Password:/);
    await type(password, new RegExp(`${USER}@${NAME}`));
    await type("lsblk -bdno SIZE", new RegExp(String(DISK.bytes)));
    expect(panel.complaints).toEqual([]);
  },
  2 * DEBIAN_BOOT_MS,
);
