// SPDX-License-Identifier: Apache-2.0
// Changes in the panel are queued, checked and sent, by pointer and by keyboard, and never before Apply.
import type { Page } from "playwright-core";
import { expect, test } from "vitest";
import { createBench, fill, type FakePanel } from "./bench.ts";
import { RACK, vmiOf } from "./objects.ts";
import { SMALL } from "./panel-page.ts";

const { open } = createBench();

function done({ cluster }: FakePanel) {
  return cluster.asked.filter(({ isDryRun }) => !isDryRun);
}

async function plugByList(page: Page, vm: string, network: string): Promise<void> {
  await page.getByRole("button", { name: new RegExp(`^${vm} (Free socket|Full)`) }).click();
  await page.locator(".pick-network", { hasText: network }).click();
}

interface Point {
  readonly x: number;
  readonly y: number;
}

async function centre(page: Page, label: RegExp): Promise<Point> {
  const box = await page.getByRole("button", { name: label }).first().boundingBox();
  return { x: (box?.x ?? 0) + (box?.width ?? 0) / 2, y: (box?.y ?? 0) + (box?.height ?? 0) / 2 };
}

async function draw(page: Page, from: RegExp, to: RegExp): Promise<void> {
  const [start, end] = [await centre(page, from), await centre(page, to)];
  await page.mouse.move(start.x, start.y);
  await page.mouse.down();
  await page.mouse.move(start.x + 20, start.y + 20);
  await page.mouse.move(end.x, end.y, { steps: 4 });
  await page.mouse.up();
}

test("draws a cable from a free socket to a jack: queued, checked, and sent only by Apply", async () => {
  await using panel = await open();
  const { page, cluster } = panel;
  await draw(page, /^mail Free socket/, /^show only storage/);
  await page
    .locator(".change-title", { hasText: "mail: plug storage into default/storage" })
    .waitFor();
  await page.locator(".badge-live").waitFor();
  expect(done(panel)).toEqual([]);
  expect(cluster.asked).toHaveLength(1);
  await page.getByRole("button", { name: "Apply" }).click();
  await page.getByText("All changes are sent").waitFor();
  expect(done(panel)).toEqual([
    {
      method: "PUT",
      path: "/apis/subresources.kubevirt.io/v1/namespaces/default/virtualmachines/mail/addinterface",
      isDryRun: false,
      body: { networkAttachmentDefinitionName: "storage", name: "storage" },
    },
  ]);
  expect(panel.complaints).toEqual([]);
});

/** The doctor's result, and the NIC as it is in use. */
function answerPlug({ cluster }: FakePanel, dead?: string): void {
  const hops = ["tap", "uplink"].map((hop) =>
    hop === dead
      ? { hop, state: "dead", why: "it is down" }
      : { hop, state: "ok", why: "it is up" },
  );
  const isUnplugReason = dead === "tap";
  cluster.way = () => ({ hops, isUnplugReason, ...(dead !== undefined && { firstDead: dead }) });
  const mail = RACK.find(({ name }) => name === "mail");
  const nics = [...(mail?.nics ?? []), { name: "storage", network: "storage", phase: "Ready" }];
  cluster.put("virtualmachineinstances", vmiOf({ name: "mail", ...mail, nics }));
}

const DIES = "frames die at tap: it is down";
const STAYS = "it stays, because the fault is not in the guest or its pod";

test.each([
  {
    what: "keeps a working NIC",
    dead: undefined,
    keeps: false,
    flags: "--check",
    badge: "done",
    words: "it is in use, and no hop is dead",
    asked: ["addinterface"],
  },
  {
    what: "unplugs a NIC that fails",
    dead: "tap",
    keeps: false,
    flags: "--check",
    badge: "unfit",
    words: `${DIES}; it is unplugged again`,
    asked: ["addinterface", "removeinterface"],
  },
  {
    what: "reports a failing NIC that the user chose to keep",
    dead: "tap",
    keeps: true,
    flags: "--check --keep",
    badge: "unfit",
    words: `${DIES}; it stays, as you chose`,
    asked: ["addinterface"],
  },
  {
    what: "reports a fault outside the pod",
    dead: "uplink",
    keeps: false,
    flags: "--check",
    badge: "unfit",
    words: `frames die at uplink: it is down; ${STAYS}`,
    asked: ["addinterface"],
  },
])("with the check box set, tests whether frames pass: $what", async (scenario) => {
  await using panel = await open();
  const { page } = panel;
  await page.clock.install();
  await plugByList(page, "mail", "default/storage");
  await page.locator(".badge-live").waitFor();
  await page.getByLabel("Check that frames").check();
  if (scenario.keeps) await page.getByLabel("Keep it plugged even if").check();
  const command = await page.locator(".same pre").first().textContent();
  expect(command?.endsWith(` --name storage ${scenario.flags}`)).toBe(true);
  await page.getByRole("button", { name: "Apply" }).click();
  await page.locator(".badge-checking").waitFor();
  answerPlug(panel, scenario.dead);
  const found = page.locator(`.badge-${scenario.badge}`);
  // Only this advances the page's clock.
  const passOn = async (): Promise<number> => {
    await page.clock.runFor(1000);
    return found.count();
  };
  await expect.poll(passOn, { timeout: 60_000 }).toBe(1);
  expect(await page.locator(".change-text").textContent()).toBe(scenario.words);
  expect(done(panel).map(({ path }) => path.split("/").at(-1))).toEqual(scenario.asked);
  await page.getByRole("button", { name: "Close", exact: true }).click();
  expect(panel.complaints).toEqual([]);
});

test("other changes continue during the test, and the tested NIC stays until the result", async () => {
  await using panel = await open();
  const { page } = panel;
  await plugByList(page, "mail", "default/storage");
  await page.getByLabel("Check that frames").check();
  await page.getByRole("button", { name: "Apply" }).click();
  await page.locator(".badge-checking").waitFor();
  expect(await page.getByText("not applied").count()).toBe(0);
  expect(await page.getByRole("button", { name: /^Drop: .*storage/ }).isDisabled()).toBe(true);
  expect(await page.getByRole("button", { name: "Close", exact: true }).isDisabled()).toBe(true);
  await page.getByRole("button", { name: /^interface uplink/ }).click();
  await page.getByRole("button", { name: "Pull the plug" }).click();
  await page.getByRole("button", { name: "Apply" }).click();
  await page.locator(".badge-done").waitFor();
  await page.getByRole("button", { name: "Close", exact: true }).click();
  expect(await page.locator(".badge").allTextContents()).toEqual(["checking…"]);
  expect(panel.complaints).toEqual([]);
});

test("confirms closing the page only while changes are queued", async () => {
  await using panel = await open();
  const { page } = panel;
  const requested: string[] = [];
  page.on("dialog", (dialog) => {
    requested.push(dialog.type());
    void dialog.dismiss();
  });
  await plugByList(page, "mail", "default/storage");
  await page.locator(".badge-live").waitFor();
  await page.close({ runBeforeUnload: true });
  await expect.poll(() => requested).toEqual(["beforeunload"]);
  await page.getByRole("button", { name: "Drop all" }).click();
  await page.close({ runBeforeUnload: true });
  await expect.poll(() => page.isClosed()).toBe(true);
  expect(requested).toHaveLength(1);
});

/** Touches through the browser's debugger, which also scroll. */
async function touch(page: Page) {
  const session = await page.context().newCDPSession(page);
  const send = (type: "touchStart" | "touchMove" | "touchEnd", at?: Point): Promise<unknown> =>
    session.send("Input.dispatchTouchEvent", { type, touchPoints: at === undefined ? [] : [at] });
  return {
    down: (at: Point) => send("touchStart", at),
    move: (at: Point) => send("touchMove", at),
    up: () => send("touchEnd"),
  };
}

test("on a phone, a finger that rests on a socket draws its cable", async () => {
  await using panel = await open(undefined, { viewport: SMALL, hasTouch: true });
  const { page } = panel;
  const finger = await touch(page);
  const start = await centre(page, /^db Free socket/);
  await finger.down(start);
  await page.locator("path.loose").waitFor({ state: "attached" });
  const end = await centre(page, /^connect to storage/);
  await finger.move({ x: (start.x + end.x) / 2, y: (start.y + end.y) / 2 });
  await finger.move(end);
  await page.locator(".jack.target").waitFor();
  await finger.up();
  await page.locator(".change-title", { hasText: "db: plug storage-2 into" }).waitFor();
  await page.locator(".badge-live").waitFor();
  expect(done(panel)).toEqual([]);
  expect(panel.complaints).toEqual([]);
});

test("on a phone, a finger that moves immediately scrolls the rack and draws nothing", async () => {
  await using panel = await open(undefined, { viewport: SMALL, hasTouch: true });
  const { page } = panel;
  const finger = await touch(page);
  const start = await centre(page, /^db Free socket/);
  await finger.down(start);
  for (const dy of [20, 60, 120]) await finger.move({ x: start.x, y: start.y - dy });
  await finger.up();
  await expect
    .poll(() => page.evaluate("document.querySelector('.rack-scroll').scrollTop"))
    .toBeGreaterThan(0);
  expect(await page.locator("path.loose, .change").count()).toBe(0);
});

test("a VMI without a VM can be re-plugged, its link switched, and its console and screen opened", async () => {
  await using panel = await open((cluster) => {
    fill(cluster, []);
    const [db] = RACK;
    if (db !== undefined) cluster.put("virtualmachineinstances", vmiOf(db));
  });
  const { page } = panel;
  await draw(page, /^interface storage in use/, /^show only front/);
  await page.getByRole("button", { name: /^interface backup/ }).click();
  await page.getByRole("button", { name: "Link up" }).click();
  await page.getByText("2 changes gathered").waitFor();
  await page.getByRole("button", { name: "Apply" }).click();
  await page.getByText("All changes are sent").waitFor();
  const VMI = "/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances/db";
  expect(done(panel)).toMatchObject([
    {
      method: "PATCH",
      path: VMI,
      body: [{ op: "test" }, { path: "/spec/networks/1/multus/networkName", value: "front" }],
    },
    {
      method: "PATCH",
      path: VMI,
      body: [{ op: "test" }, { path: "/spec/domain/devices/interfaces/2/state", value: "up" }],
    },
  ]);
  await page.locator(".unit-name", { hasText: "db" }).click();
  await page.getByRole("button", { name: "Console" }).waitFor();
  expect(await page.locator(".buttons button").allTextContents()).toEqual([
    "Console",
    "Screen",
    "Pause",
    "Soft reboot",
    "Reset",
    "Delete",
  ]);
});

test("one Apply moves a plug, pulls another, switches a link, starts a VM, reboots one and deletes one", async () => {
  await using panel = await open();
  const { page } = panel;
  await draw(page, /^interface storage in use/, /^show only front/);
  await page.locator(".change-title", { hasText: "db: move storage to default/front" }).waitFor();
  await page.getByRole("button", { name: /^interface backup/ }).click();
  await page.getByRole("button", { name: "Link up" }).click();
  await page.getByRole("button", { name: /^interface uplink/ }).click();
  await page.getByRole("button", { name: "Pull the plug" }).click();
  await page.locator(".unit-name", { hasText: "test" }).click();
  await page.getByRole("button", { name: "Start", exact: true }).click();
  await page.locator(".unit-name", { hasText: "mail" }).click();
  await page.getByRole("button", { name: "Soft reboot" }).click();
  await page.locator(".change-title", { hasText: "mail: soft reboot" }).waitFor();
  await page.locator(".unit-name", { hasText: "web" }).click();
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await page.locator(".change-title", { hasText: "web: delete the VM; its claims stay" }).waitFor();
  await page.getByText("6 changes gathered").waitFor();
  await page.getByRole("button", { name: "Apply" }).click();
  await page.getByText("All changes are sent").waitFor();
  const paths = done(panel).map(
    ({ method, path }) => `${method} ${path.split("/default/")[1] ?? ""}`,
  );
  expect(paths).toEqual([
    "PATCH virtualmachines/db",
    "PATCH virtualmachines/db",
    "PUT virtualmachines/router/removeinterface",
    "PUT virtualmachines/test/start",
    "PUT virtualmachineinstances/mail/softreboot",
    "DELETE virtualmachines/web",
  ]);
});

test("a VM that does not run gets the NIC at its next start", async () => {
  await using panel = await open();
  await plugByList(panel.page, "test", "default/storage");
  await panel.page.locator(".badge-start").waitFor();
  expect(await panel.page.getByLabel("Check that frames").count()).toBe(0);
  await panel.page.getByText("Do the same by hand").click();
  const command = await panel.page.locator(".same pre").first().textContent();
  expect(command).toBe(
    "kubectl patchbay addinterface test -n default --network-attachment-definition-name default/storage --name storage",
  );
  expect(await panel.page.locator(".same pre").nth(1).textContent()).toContain(
    "networkName: default/storage",
  );
});

test("explains rejected changes; a change that fails at Apply shows its error and stops no other", async () => {
  await using panel = await open();
  const { page, cluster } = panel;
  cluster.refusal = { kind: "Status", message: "no free PCIe port: 32 of 32 are used" };
  await plugByList(page, "db", "default/front");
  await page.locator(".badge-refused").waitFor();
  await page.getByText("no free PCIe port: 32 of 32 are used").waitFor();
  await plugByList(page, "web", "default/storage");
  await page.getByRole("button", { name: "Apply" }).click();
  await expect.poll(() => page.locator(".badge-failed").count()).toBe(2);
  cluster.refusal = undefined;
  await page.getByRole("button", { name: "Apply" }).click();
  await page.getByText("All changes are sent").waitFor();
});

test("checks changes of one VM together and reports a conflict at the last change", async () => {
  await using panel = await open();
  const { page, cluster } = panel;
  cluster.refusal = { kind: "Status", message: "no free PCIe port for storage-2" };
  cluster.refuses = ({ method }) => method === "PATCH";
  await plugByList(page, "db", "default/front");
  await page.locator(".badge-live").waitFor();
  await plugByList(page, "db", "default/storage");
  await page.locator(".change-refused", { hasText: "db: plug storage-2" }).waitFor();
  await page
    .getByText("together with the other changes: no free PCIe port for storage-2")
    .waitFor();
  expect(await page.locator(".badge-live").count()).toBe(1);
  await page.getByLabel("Drop: db: plug front into default/front").click();
  await expect.poll(() => page.locator(".badge-refused").count()).toBe(0);
  expect(done(panel)).toEqual([]);
});

test("queued changes can be dropped and are never sent", async () => {
  await using panel = await open();
  await plugByList(panel.page, "db", "default/front");
  await panel.page.locator(".badge-live").waitFor();
  await panel.page.getByLabel("Drop: db: plug front into default/front").click();
  await expect.poll(() => panel.page.locator(".changes").count()).toBe(0);
  expect(done(panel)).toEqual([]);
});

interface SentObject {
  readonly kind: string;
  readonly metadata: { readonly ownerReferences?: readonly object[] };
  readonly spec?: { readonly dataVolumeTemplates?: readonly object[] };
  readonly stringData?: Readonly<Record<string, string>>;
}

test("queues a new VM like any other change, with all that `create vm` adds", async () => {
  await using panel = await open();
  const { page } = panel;
  await page.getByRole("button", { name: "New VM" }).click();
  await page.getByRole("button", { name: "Gather" }).click();
  await expect.poll(() => page.locator(".field-problem").count()).toBe(2);
  await page.getByLabel("Name", { exact: true }).fill("fresh");
  const images = page.locator("datalist option");
  await expect.poll(() => images.count()).toBe(2);
  const image = (await images.first().getAttribute("value")) ?? "";
  await page.getByLabel("Image of its disk").fill(image);
  await page.getByLabel("Size to keep its disk").fill("5Gi");
  await page.getByLabel("Additional persistent disk").fill("10Gi");
  const password = await page.getByLabel("The user's password").inputValue();
  await page.locator(".pick-network", { hasText: "default/front" }).click();
  await page.getByRole("button", { name: "Gather" }).click();
  await page.locator(".change-title", { hasText: "fresh: create the VM" }).waitFor();
  await page.getByRole("button", { name: "Apply" }).click();
  await page.getByText("All changes are sent").waitFor();
  const kinds = ["PersistentVolumeClaim", "VirtualMachine", "Secret"];
  expect(done(panel)).toMatchObject(kinds.map((kind) => ({ method: "POST", body: { kind } })));
  const [, vm, secret] = done(panel).map(({ body }) => body as SentObject);
  expect(vm?.spec?.dataVolumeTemplates).toHaveLength(1);
  expect(password).toMatch(/^\w{4}(-\w{4}){3}$/);
  expect(secret?.stringData?.["userdata"]).toContain(`plain_text_passwd: ${password}`);
  expect(secret?.stringData?.["networkdata"]).toMatch(/front:\n +match:\n +macaddress: /);
  expect(secret?.metadata.ownerReferences).toMatchObject([{ name: "fresh", uid: "fresh-uid" }]);
});

test("leaves no object of a new VM behind if one is refused", async () => {
  await using panel = await open();
  const { page, cluster } = panel;
  await page.getByRole("button", { name: "New VM" }).click();
  await page.getByLabel("Name", { exact: true }).fill("fresh");
  await page.getByLabel("Image of its disk").fill("debian12");
  await page.getByLabel("Additional persistent disk").fill("10Gi");
  await page.getByRole("button", { name: "Gather" }).click();
  await page.locator(".badge-live").waitFor();
  cluster.refusal = { kind: "Status", message: "no more VMs" };
  cluster.refuses = ({ path }) => path.endsWith("/virtualmachines");
  await page.getByRole("button", { name: "Apply" }).click();
  await page.getByText("no more VMs").first().waitFor();
  expect(done(panel)).toEqual([]);
});

test("hides actions that the user may not perform", async () => {
  await using panel = await open((cluster) => {
    fill(cluster);
    cluster.rules = [{ verbs: ["get", "list", "watch"], apiGroups: ["*"], resources: ["*"] }];
  });
  const { page } = panel;
  await page
    .getByRole("button", { name: /^interface storage in use/ })
    .first()
    .click();
  await page.getByText("Details of every layer").waitFor();
  const offered = page.locator(".buttons button, .pick-network");
  expect(await offered.allTextContents()).toEqual(["Where do frames die?"]);
  await page.getByRole("button", { name: /^db (Free socket|Full)/ }).click();
  await page.getByText("not plug interfaces into it").waitFor();
  expect(await page.getByRole("button", { name: "New VM" }).count()).toBe(0);
});

test("works by keyboard alone", async () => {
  await using panel = await open();
  const { page } = panel;
  await page.getByPlaceholder("Search").focus();
  await page.keyboard.type("mail");
  await expect.poll(() => page.locator(".unit").count()).toBe(1);
  const tabTo = async (name: string): Promise<void> => {
    const wanted = page.getByRole("button", { name }).first();
    for (let steps = 0; steps < 40; steps += 1) {
      if ((await page.locator(":focus").and(wanted).count()) > 0) return;
      await page.keyboard.press("Tab");
    }
    throw new Error(`no Tab leads to ${name}`);
  };
  await tabTo("mail Free socket");
  await page.keyboard.press("Enter");
  await page.locator(".pick-network").first().waitFor();
  await expect.poll(() => page.locator(".aside h2:focus").count()).toBe(1);
  await tabTo("default/backup");
  await page.keyboard.press("Enter");
  await page.locator(".badge-live").waitFor();
  await tabTo("Apply");
  await page.keyboard.press("Enter");
  await page.getByText("All changes are sent").waitFor();
  await page.keyboard.press("Escape");
  await expect.poll(() => page.locator(".aside").count()).toBe(0);
});
