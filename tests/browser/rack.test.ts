// SPDX-License-Identifier: Apache-2.0
// The panel at first sight, and its reaction to changes.
import { eventually } from "@patchbay/support";
import { expect, test } from "vitest";
import { createBench, fill } from "./bench.ts";
import { RACK, vmiOf } from "./objects.ts";

const { browser, open } = createBench();
const [DB, MAIL] = RACK;

test("a rack shows units, sockets, plugs with their state, jacks, and a cable for each plug", async () => {
  await using panel = await open();
  const { page } = panel;
  await page.waitForSelector(".plug");
  expect(await page.locator(".unit").count()).toBe(RACK.length);
  const nics = RACK.flatMap((vm) => vm.nics).length;
  expect(await page.locator(".plug").count()).toBe(nics);
  expect(await page.locator("path.cable").count()).toBe(nics);
  expect(await page.locator(".jack").count()).toBe(5);
  for (const name of [
    "interface uplink CniFailed on uplink 02:00:5e:10:00:13",
    "interface backup link down on backup 10.77.4.4 02:00:5e:10:00:12",
    "interface front plugging into the guest on front 02:00:5e:10:00:11",
    "db Free socket 29 of 32 ports free",
    "router Full all ports are used",
    "interface front at next start on front",
  ]) {
    expect(await page.getByRole("button", { name, exact: true }).count()).toBe(1);
  }
  expect(await page.getByText("2 VMs need attention").count()).toBe(1);
  expect(await page.getByText("3 of 32 ports used").count()).toBe(1);
  expect(panel.complaints).toEqual([]);
});

test("describes faults in text: the reason, the node's message, and who can help", async () => {
  await using panel = await open();
  await panel.page.getByRole("button", { name: /^interface uplink/ }).click();
  const details = panel.page.getByRole("complementary", { name: "Details" });
  await details.getByText("has no link enp9s0", { exact: false }).waitFor();
  expect(await details.getByText("Who can help:", { exact: false }).count()).toBe(1);
  expect(await details.locator('[aria-current="step"]').textContent()).toContain("PodAttaching");
});

test("a VM's events are among its details", async () => {
  await using panel = await open((cluster) => {
    fill(cluster);
    cluster.events = [
      {
        metadata: { name: "db.1", creationTimestamp: "2026-11-26T14:00:00Z" },
        involvedObject: { kind: "VirtualMachineInstance", name: "db" },
        type: "Warning",
        reason: "FailedMigration",
        message: "no node fits",
        count: 2,
      },
    ];
  });
  await panel.page.locator(".unit-name", { hasText: "db" }).click();
  const events = panel.page.getByRole("region", { name: "Events" });
  await events.getByText("FailedMigration").waitFor();
  expect(await events.locator("li").allTextContents()).toEqual([
    "2026-11-26T14:00:00Z, 2 times FailedMigration no node fits",
  ]);
});

test("lists the history of a NIC, also from before the page was opened", async () => {
  await using panel = await open();
  await panel.page
    .getByRole("button", { name: /^interface storage in use/ })
    .first()
    .click();
  const rows = panel.page.locator(".done tr");
  await expect.poll(() => rows.count()).toBe(1);
  expect(await rows.first().textContent()).toContain(
    "plug into default/storage: done, was held up by CniFailed, tried 3 times0.84 s",
  );
});

test("shows a plug made elsewhere with each phase and its time", async () => {
  await using panel = await open();
  const { page, cluster } = panel;
  expect(MAIL).toBeDefined();
  const observed = (phase: string) => {
    const nics = [...(MAIL?.nics.slice(0, 1) ?? []), { name: "front", network: "front", phase }];
    cluster.put("virtualmachineinstances", vmiOf({ ...MAIL, name: "mail", nics }));
  };
  const mail = page.locator('[aria-label="mail in default, Running"]');
  await mail.getByRole("button", { name: /^interface front/ }).click();
  for (const [phase, text] of [
    ["PodAttaching", "joining the network"],
    ["Wiring", "bridge and tap"],
    ["Ready", "in use"],
  ] as const) {
    observed(phase);
    await mail.getByRole("button", { name: `interface front ${text} on front` }).waitFor();
  }
  const steps = page.locator(".steps tr");
  await expect.poll(() => steps.count()).toBe(4);
  expect(await steps.nth(3).textContent()).toMatch(/Ready\+\d+\.\d\d s$/);
});

test("draws a NIC's traffic as a curve for users who may see the VM", async () => {
  await using panel = await open();
  let bytes = 0;
  panel.cluster.traffic = () => {
    bytes += 100_000;
    return [{ name: "storage", received: { bytes }, sent: { bytes } }];
  };
  await panel.page
    .getByRole("button", { name: /^interface storage in use/ })
    .first()
    .click();
  await expect.poll(() => panel.page.locator(".received-word").textContent()).toMatch(/\d kB\/s$/);
});

test("shows on request at which hop a NIC's frames are dropped", async () => {
  await using panel = await open();
  const { page, cluster } = panel;
  cluster.way = (iface) => ({
    vmi: "default/db",
    interface: iface,
    firstDead: "uplink",
    milliseconds: 9,
    hops: [
      { hop: "guest", state: "ok", why: "it answers at its tap" },
      { hop: "translation", state: "notApplicable", why: "bridged" },
      { hop: "uplink", name: "eno1", state: "dead", why: "it is down", fix: "set it up" },
    ],
  });
  await page
    .getByRole("button", { name: /^interface storage in use/ })
    .first()
    .click();
  await page.getByRole("button", { name: "Where do frames die?" }).click();
  await page.getByText("Frames die at uplink").waitFor();
  const rows = await page.locator(".doctor tr").allTextContents();
  expect(rows).toEqual(["✓guestit answers at its tap", "✗uplinkeno1: it is downset it up"]);
});

test("search and filters show only matches", async () => {
  await using panel = await open();
  const { page } = panel;
  const names = () => page.locator(".unit-name").allTextContents();
  await page.getByPlaceholder("Search").fill("10.77.3.4");
  await expect.poll(names).toEqual(["db"]);
  await page.getByPlaceholder("Search").fill("");
  await page.getByLabel("Node").selectOption("node-b");
  await expect.poll(names).toEqual(["mail", "router"]);
  await page.getByLabel("Node").selectOption("");
  await page.getByRole("button", { name: "2 VMs need attention" }).click();
  await expect.poll(names).toEqual(["router", "web"]);
  await page.getByPlaceholder("Search").fill("nowhere");
  await page.getByText("No VM fits").waitFor();
});

test("resumes a broken watch and shows it meanwhile", async () => {
  await using panel = await open();
  const { page, cluster } = panel;
  await page.getByText("live", { exact: true }).waitFor();
  cluster.put("virtualmachineinstances", vmiOf({ ...DB, name: "db", nics: [], free: 32 }));
  await page.getByRole("button", { name: "db Free socket 32 of 32 ports free" }).waitFor();
  await panel.panel.close();
  await expect.poll(() => page.getByText("not connected").count()).toBe(1);
});

test("does not show a frozen server as live", async () => {
  await using panel = await open();
  const { page } = panel;
  await page.clock.install();
  // The browser may abort the page load, see openPage of panel-page.ts.
  await eventually(
    async () => {
      await page.reload();
      await page.getByText("live", { exact: true }).waitFor({ timeout: 5000 });
      return true;
    },
    { withinMs: 30_000 },
  );
  // Only the page's clock advances, without a heartbeat.
  await page.clock.runFor(9500);
  await expect.poll(() => page.getByText("not connected").count()).toBe(1);
});

test("a link works for one browser, which may reload the page; another browser shows the next step", async () => {
  await using panel = await open();
  const { page } = panel;
  // The browser may abort a page, see openPage of panel-page.ts. A second visit of the same link would not load it again.
  await eventually(
    async () => {
      const link = panel.panel.createLink();
      await page.goto(link);
      await page.waitForSelector(".unit", { timeout: 5000 });
      await page.reload();
      await page.waitForSelector(".unit", { timeout: 5000 });
      const context = await browser().newContext();
      try {
        const other = await context.newPage();
        await other.goto(link);
        await other.getByText("This link is no longer valid").waitFor({ timeout: 5000 });
      } finally {
        await context.close();
      }
      return true;
    },
    { withinMs: 20_000 },
  );
  expect(page.url()).not.toContain("token");
  const retained = await page.evaluate(
    "JSON.stringify([Object.keys(localStorage).sort(), { ...sessionStorage }, document.cookie])",
  );
  expect(retained).toBe('[["patchbay-link","patchbay-theme"],{},""]');
});

test("a page whose session ended requests a new link", async () => {
  await using panel = await open();
  let requested = 0;
  const page = await panel.openAnother(async (opened) => {
    requested = 0;
    await opened.route("**/session", async (route) => {
      requested += 1;
      // The first request gets no response, and neither does the second.
      if (requested === 2) await route.fetch();
      if (requested < 3) await route.abort();
      else await route.continue();
    });
  });
  await page.waitForSelector(".unit");
  expect(requested).toBeGreaterThanOrEqual(3);
});

test("a page whose server does not answer shows it", async () => {
  await using panel = await open();
  const page = await panel.openAnother((opened) =>
    opened.route("**/session", (route) => route.abort()),
  );
  const text = page.getByText("The panel's server does not answer");
  await expect.poll(() => text.count()).toBe(1);
});

test("explains how to create the first VM", async () => {
  await using panel = await open((cluster) => {
    fill(cluster, []);
  });
  await expect.poll(() => panel.page.getByText("No VM yet").count()).toBe(1);
});
