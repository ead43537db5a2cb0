// SPDX-License-Identifier: Apache-2.0
// The panel on a machine with a running guest: plug, move, pull, console, screen.
import {
  bridgeNetworkManifest,
  endTrial,
  FEW_PORTS,
  vmManifest,
  type Machine,
} from "@patchbay/support";
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { bringUp } from "../e2e/standalone.ts";
import { createBench } from "./bench.ts";
import { openReal, type OpenPanel } from "./panel-page.ts";

/** Time for a guest under emulation beside others. */
const SLOW = { timeout: 60_000 };
const bench = createBench();
let machine: Machine;
let panel: OpenPanel;
let page: Page;

beforeAll(async () => {
  const networks = { podSubnet: "10.88.248.0/24", serviceSubnet: "10.113.0.0/16" };
  machine = await bringUp({ apiPort: 16843, bridge: "pbw0", ...networks }, async (made) => {
    made.apply(
      bridgeNetworkManifest("blue", "pbw-blue", "10.77.7.0/24"),
      bridgeNetworkManifest("red", "pbw-red"),
      vmManifest({ name: "alpha", pcieRootPorts: FEW_PORTS }),
    );
    await made.booted("alpha");
  });
  panel = await openReal(machine, bench.browser());
  page = panel.page;
});
afterAll(async () => {
  await panel[Symbol.asyncDispose]();
  endTrial(machine);
});

async function apply(): Promise<void> {
  await page.getByRole("button", { name: "Apply" }).click();
  await page.getByText("All changes are sent").waitFor();
  await page.getByRole("button", { name: "Close", exact: true }).click();
}

const nic = (text: string) => page.getByRole("button", { name: `interface blue ${text}` });

test("a cable to a network becomes a NIC in the guest, and each phase is shown", async () => {
  await page.getByRole("button", { name: /^alpha Free socket \d+ of \d+ ports free/ }).click(SLOW);
  await page.locator(".pick-network", { hasText: "default/blue" }).click();
  await page.locator(".badge-live").waitFor();
  await page.getByText("interface 'blue' will be plugged into the running guest").waitFor();
  expect(JSON.stringify(machine.findVm("alpha"))).not.toContain("blue");
  await apply();
  await nic("in use on blue").click(SLOW);
  const facts = page.locator(".facts");
  await facts.getByText("10.77.7.").first().waitFor(SLOW);
  const steps = await page.locator(".steps tr").allTextContents();
  expect(steps.at(-1)).toMatch(/Ready/);
  expect(panel.complaints).toEqual([]);
});

test("shows a plug made by another client", async () => {
  machine.patchbay(
    "addinterface",
    "alpha",
    "--name",
    "other",
    "--network-attachment-definition-name",
    "red",
  );
  const other = page.getByRole("button", { name: "interface other in use on red" });
  await expect.poll(() => other.count(), SLOW).toBe(1);
});

test("shows the API server's rejection before Apply", async () => {
  machine.startDelete("net-attach-def", "red");
  await page.getByRole("button", { name: /^alpha Free socket/ }).click();
  await page.locator(".pick-network", { hasText: "default/red" }).click();
  await page.locator(".badge-refused").waitFor();
  expect(await page.locator(".change-text").textContent()).toContain("red");
  await page.getByRole("button", { name: "Drop all" }).click();
  machine.apply(bridgeNetworkManifest("red", "pbw-red"));
});

test("moves a cable to another network and pulls the plug", async () => {
  await nic("in use on blue").click();
  await page.locator(".pick-network", { hasText: "default/red" }).click();
  await page.locator(".badge-live").waitFor();
  await apply();
  await nic("in use on red").waitFor(SLOW);
  await page.getByRole("button", { name: "Link down" }).click();
  await page.locator(".badge-live").waitFor();
  await apply();
  await nic("link down on red").waitFor(SLOW);
  await page.getByRole("button", { name: "Pull the plug" }).click();
  await apply();
  await expect
    .poll(() => page.getByRole("button", { name: /^interface blue/ }).count(), SLOW)
    .toBe(0);
});

test("the guest's console answers input, and its screen is shown", async () => {
  await page.locator(".unit-name", { hasText: "alpha" }).click();
  await page.getByRole("button", { name: "Console" }).click();
  await page.getByText("connected; Enter may be needed").waitFor(SLOW);
  await page.keyboard.type("\n@panel disks\n");
  await page.locator(".xterm-accessibility", { hasText: "@panel done 0" }).waitFor(SLOW);
  await page.getByRole("button", { name: "Close", exact: true }).click();
  await page.getByRole("button", { name: "Screen" }).click();
  await page.locator("dialog").getByText("connected", { exact: true }).waitFor(SLOW);
  const width = await page.evaluate("document.querySelector('dialog canvas').width");
  expect(width).toBeGreaterThanOrEqual(200);
  await page.getByRole("button", { name: "Close", exact: true }).click();
  expect(panel.complaints).toEqual([]);
});

test("stops and starts a VM", async () => {
  await page.locator(".unit-name", { hasText: "alpha" }).click();
  await page.getByRole("button", { name: "Stop", exact: true }).click();
  await apply();
  await page.locator(".unit-state", { hasText: "Stopped" }).waitFor(SLOW);
  const start = page.getByRole("button", { name: "Start", exact: true });
  await expect.poll(() => start.count()).toBe(1);
});
