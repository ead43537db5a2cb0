// SPDX-License-Identifier: Apache-2.0
// A panel with headless Chromium from Debian.
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { createKubeClient, loadKubeConfig, type KubeConfig } from "@patchbay/kube";
import { createClock, createFiles } from "@patchbay/os";
import { listRunningImages } from "@patchbay/supervisor";
import { createFakeLogger } from "@patchbay/telemetry/testing";
import { needProgram, type Machine } from "@patchbay/support";
import { chromium, type Browser, type BrowserContext, type Page } from "playwright-core";
import { readPage } from "../../packages/cli/src/ui/page.ts";
import { startPanel, type Panel } from "../../packages/cli/src/ui/server.ts";
import type { FakeCluster } from "./fake-cluster.ts";

/** Debian's headless shell: the full browser takes twice as long, for a frame that is never seen. */
const CHROMIUM = "/usr/bin/chromium-headless-shell";

/** Starts it; root must disable its sandbox, and every page here is ours. */
export function openBrowser(): Promise<Browser> {
  needProgram(CHROMIUM, "chromium-headless-shell");
  return chromium.launch({ executablePath: CHROMIUM, args: ["--no-sandbox", "--disable-gpu"] });
}

/** Names of a machine's images. */
type ListImages = () => Promise<readonly string[]>;

/** Images of a fake cluster's machine. */
const FAKE_IMAGES = ["debian:12", "alpine:3.22"];

export const WIDE = { width: 1280, height: 800 };
/** The size of a phone. */
export const SMALL = { width: 375, height: 720 };

/** Runs on a page before it is opened. */
type Prepare = (page: Page) => unknown;

/** A panel and the complaints of its page. */
export interface OpenPanel extends AsyncDisposable {
  readonly panel: Panel;
  readonly page: Page;
  readonly complaints: readonly string[];
  /** Opens another page by a new link. */
  readonly openAnother: (prepare: Prepare) => Promise<Page>;
}

interface Look {
  readonly viewport?: { readonly width: number; readonly height: number };
  readonly scheme?: "light" | "dark";
  readonly hasTouch?: boolean;
}

/** Browser request aborted because a host address changed, which other suites cause. */
const NETWORK_CHANGED = "ERR_NETWORK_CHANGED";
/** The page's own files; the page itself retries its requests. */
const PARTS = ["document", "script", "stylesheet"];

/** Opens a page by a new link, and retries while parts of it are aborted. */
async function openPage(context: BrowserContext, panel: Panel, prepare: Prepare): Promise<Page> {
  for (let attempt = 0; attempt < 20; attempt += 1) {
    const page = await context.newPage();
    await prepare(page);
    const broken: string[] = [];
    page.on("requestfailed", (request) => {
      if (PARTS.includes(request.resourceType())) broken.push(request.url());
    });
    await page.goto(panel.createLink()).catch((error: unknown) => {
      if (!String(error).includes(NETWORK_CHANGED)) throw error;
    });
    if (broken.length === 0) return page;
    await page.close();
  }
  throw new Error("the page was broken off each time");
}

async function openPanelOf(
  config: KubeConfig,
  images: ListImages,
  browser: Browser,
  look: Look,
): Promise<OpenPanel> {
  const client = createKubeClient(config, { logger: createFakeLogger(), clock: createClock() });
  const files = await readPage(createFiles());
  const scope = { namespace: "default" };
  const deps = { client, files, scope, images, random: randomBytes, clock: createClock() };
  const panel = await startPanel(deps, 0);
  const { viewport = WIDE, scheme = "light", hasTouch = false } = look;
  const context = await browser.newContext({ viewport, colorScheme: scheme, hasTouch });
  const complaints: string[] = [];
  const listen = (page: Page): void => {
    page.on("pageerror", (error) => complaints.push(error.message));
    page.on("console", (message) => {
      const isOurs = !message.text().includes(NETWORK_CHANGED);
      if (message.type() === "error" && isOurs) complaints.push(message.text());
    });
  };
  const page = await openPage(context, panel, listen);
  return {
    panel,
    page,
    complaints,
    openAnother: (prepare) => openPage(context, panel, prepare),
    [Symbol.asyncDispose]: async () => {
      await context.close();
      await panel.close();
      await client.close();
    },
  };
}

/** A panel of a fake cluster. */
export function openFake(
  cluster: FakeCluster,
  browser: Browser,
  look: Look = {},
): Promise<OpenPanel> {
  const readCredentials = () => Promise.resolve({});
  const config = { server: cluster.url, skipTlsVerify: false, readCredentials };
  return openPanelOf(config, () => Promise.resolve(FAKE_IMAGES), browser, look);
}

/** A panel of a running machine, with its images. */
export async function openReal({ dataDir }: Machine, browser: Browser): Promise<OpenPanel> {
  const config = await loadKubeConfig({ kubeconfig: join(dataDir, "kubeconfig") });
  return openPanelOf(config, () => listRunningImages(dataDir), browser, {});
}
