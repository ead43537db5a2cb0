// SPDX-License-Identifier: Apache-2.0
// Hostile names and statuses must be shown as plain text.
import { expect, test } from "vitest";
import { createBench, fill } from "./bench.ts";
import { networkOf, vmiOf, vmOf, type VmOf } from "./objects.ts";

const { open } = createBench();

const WORDS: readonly { readonly name: string; readonly word: string; readonly shown: string }[] = [
  {
    name: "markup",
    word: '<img src=x onerror="document.title=1"><script>document.title=2</script>',
    shown: '<img src=x onerror="document.title=1"><script>document.title=2</script>',
  },
  {
    name: "bidirectional marks",
    word: "\u202egnihton\u2066",
    shown: String.raw`\u202egnihton\u2066`,
  },
  { name: "10 kB", word: "W".repeat(10_000), shown: `${"W".repeat(79)}…` },
  {
    name: "line ends and control characters",
    word: "a\r\nb\u0000\u001b[31m",
    shown: String.raw`a\u000d\u000ab\u0000\u001b[31m`,
  },
  { name: "a template", word: "{{nonce}}${1}</style>", shown: "{{nonce}}${1}</style>" },
];

test.each(WORDS)("attack 116: $name", async ({ word, shown }) => {
  const hostile: VmOf = {
    name: "victim",
    node: word,
    system: word,
    nics: [
      { name: word, network: word, address: word, guestName: word },
      { name: "red", network: "red", phase: "Wiring", reason: word, message: word },
    ],
  };
  await using panel = await open((cluster) => {
    fill(cluster, []);
    cluster.put("network-attachment-definitions", networkOf("evil", word, word));
    cluster.put("virtualmachines", vmOf(hostile));
    cluster.put("virtualmachineinstances", vmiOf(hostile));
  });
  const { page } = panel;
  await page.locator(".plug").first().click();
  const facts = page.locator(".facts dd");
  await facts.first().waitFor();
  expect(await facts.allTextContents()).toContain(shown);
  await page.locator(".plug").nth(1).click();
  await page.locator(".callout b").waitFor();
  expect(await page.locator(".callout b").textContent()).toBe(shown);
  expect(await page.title()).toBe("Patchbay");
  expect(await page.locator("img, #panel script, iframe").count()).toBe(0);
  const isWider = await page.evaluate("document.documentElement.scrollWidth > innerWidth");
  expect(isWider).toBe(false);
  expect(panel.complaints).toEqual([]);
});

test("attack 116: text inserted into the page runs nothing and requests no other server", async () => {
  await using panel = await open();
  const { page } = panel;
  const tried = await page.evaluate(`(async () => {
    const said = [];
    const attempt = async (name, run) => { try { await run(); said.push(name); } catch { /* refused */ } };
    const script = document.createElement("script");
    script.append("window.wasRun = true");
    document.head.append(script);
    if (window.wasRun) said.push("script");
    await attempt("markup", () => { document.body.innerHTML = "<b>x</b>"; });
    await attempt("outside", () => fetch("http://127.0.0.1:1/", { mode: "no-cors" }));
    await attempt("frame", () => { const f = document.createElement("iframe"); f.srcdoc = "x"; });
    return said;
  })()`);
  expect(tried).toEqual([]);
});
