// SPDX-License-Identifier: Apache-2.0
// A panel with a browser in front of it: Debian's Chromium, without a window.
import { randomBytes } from "node:crypto";
import { createKubeClient, loadKubeConfig, type KubeConfig } from "@patchbay/kube";
import { createClock, createFiles } from "@patchbay/os";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { chromium, type Browser, type Page } from "playwright-core";
import { readPage } from "../../packages/patchbay/src/ui/page.ts";
import { startPanel, type Panel } from "../../packages/patchbay/src/ui/server.ts";
import type { FakeCluster } from "./fake-cluster.ts";

/** Debian's own. It is Chromium's engine alone: the whole browser works twice as long, on its frame that nobody sees. */
const CHROMIUM = "/usr/bin/chromium-headless-shell";

/** Starts it; root needs to give up its sandbox, and every page here is ours. */
export function openBrowser(): Promise<Browser> {
  return chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox", "--disable-gpu"] });
}

/** How large a window is. */
export const WIDE = { width: 1280, height: 800 };
/** A telephone's. */
export const SMALL = { width: 375, height: 720 };

/** A panel, and what a page of it has complained of. */
export interface OpenPanel extends AsyncDisposable {
  readonly panel: Panel;
  readonly page: Page;
  readonly complaints: readonly string[];
}

interface Look {
  readonly viewport?: { readonly width: number; readonly height: number };
  readonly scheme?: "light" | "dark";
  readonly hasTouch?: boolean;
}

async function openPanelOf(config: KubeConfig, browser: Browser, look: Look): Promise<OpenPanel> {
  const client = createKubeClient(config, { logger: createFakeLogger(), clock: createClock() });
  const files = await readPage(createFiles());
  const scope = { namespace: "default" };
  const panel = await startPanel({ client, files, scope, random: randomBytes }, 0);
  const { viewport = WIDE, scheme = "light", hasTouch = false } = look;
  const context = await browser.newContext({ viewport, colorScheme: scheme, hasTouch });
  const page = await context.newPage();
  const complaints: string[] = [];
  page.on("pageerror", (error) => complaints.push(error.message));
  page.on("console", (message) => {
    if (message.type() === "error") complaints.push(message.text());
  });
  await page.goto(panel.link());
  return {
    ...{ panel, page, complaints },
    [Symbol.asyncDispose]: async () => {
      await context.close();
      await panel.close();
      await client.close();
    },
  };
}

/** A panel of a cluster that a test has made up. */
export function openFake(
  cluster: FakeCluster,
  browser: Browser,
  look: Look = {},
): Promise<OpenPanel> {
  const readCredentials = () => Promise.resolve({});
  return openPanelOf({ server: cluster.url, skipTlsVerify: false, readCredentials }, browser, look);
}
/** A panel of a machine that runs. */
export async function openReal(
  kubeconfig: string,
  browser: Browser,
  look: Look = {},
): Promise<OpenPanel> {
  return openPanelOf(await loadKubeConfig({ kubeconfig }), browser, look);
}
