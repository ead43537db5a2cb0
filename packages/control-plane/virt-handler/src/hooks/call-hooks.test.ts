// SPDX-License-Identifier: Apache-2.0
// Hooks that change a guest's domain.
import { createFakeHookSidecars, type FakeHookSidecars } from "@patchbay/hooks/testing";
import { aVmi } from "@patchbay/support";
import { beforeEach, describe, expect, test } from "vitest";
import { callHooks, notifyEnd } from "./call-hooks.ts";

const POD = { uid: "uid-1", namespace: "default", name: "virt-launcher-vm1" };
const FIRST = "hook-sidecar-0";
const SECOND = "hook-sidecar-1";
const DOMAIN = `<domain type="qemu">
  <name>default_vm1</name>
  <os>
    <type machine="q35">hvm</type>
  </os>
  <devices>
    <interface type="ethernet">
      <mac address="02:00:00:00:00:01"/>
      <alias name="ua-one"/>
    </interface>
  </devices>
</domain>
`;

let hooks: FakeHookSidecars;
beforeEach(() => {
  hooks = createFakeHookSidecars();
});

function put(
  container: string,
  onDefineDomain: (xml: string, vmi: string) => string,
  { name = "marks", priority = 0, versions = ["v1alpha3"] } = {},
): void {
  const info = { name, versions, hookPoints: [{ name: "OnDefineDomain", priority }] };
  hooks.put(POD.uid, container, { info, onDefineDomain });
}

async function ask(...sidecars: readonly string[]): Promise<string> {
  const request = { pod: POD, sidecars, vmi: aVmi(), domainXml: DOMAIN, hookNics: [] };
  return (await callHooks(request, hooks)).domainXml;
}

const withTitle =
  (text: string) =>
  (xml: string): string =>
    xml.replace("<os>", `<title>${/<title>(.*)<\/title>/.exec(xml)?.[1] ?? ""}${text}</title><os>`);

test("uses the domain that a hook returns", async () => {
  put(FIRST, (xml) => xml.replace("</os>", "<smbios mode='sysinfo'/></os>"));
  expect(await ask(FIRST)).toBe(DOMAIN.replace("  </os>", '    <smbios mode="sysinfo"/>\n  </os>'));
  expect(hooks.openCount).toBe(0);
});

test("passes the VMI to the hook", async () => {
  put(FIRST, (xml, vmi) => {
    const { metadata } = JSON.parse(vmi) as { metadata: { name: string } };
    return xml.replace("<os>", `<title>${metadata.name}</title><os>`);
  });
  expect(await ask(FIRST)).toContain("<title>vm1</title>");
});

test("calls hooks in sequence, by descending priority and then by name", async () => {
  const THIRD = "hook-sidecar-2";
  put(FIRST, (xml) => xml.replace("<os>", "<description>b</description><os>"), { name: "b" });
  put(SECOND, (xml) => xml.replace("<os>", "<pm/><os>"), { name: "a" });
  put(THIRD, (xml) => xml.replace("<os>", "<title>first</title><os>"), { name: "c", priority: 9 });
  const xml = await ask(FIRST, SECOND, THIRD);
  expect(["title", "pm", "description"].map((name) => xml.includes(`<${name}`))).toEqual([
    true,
    true,
    true,
  ]);
  const defined = hooks.calls.filter((call) => call.endsWith("OnDefineDomain"));
  expect(defined).toEqual(
    [THIRD, SECOND, FIRST, THIRD, SECOND, FIRST].map((name) => `${name} OnDefineDomain`),
  );
});

test("a hook is idempotent over five calls", async () => {
  put(FIRST, withTitle("x"));
  const answers = [
    await ask(FIRST),
    await ask(FIRST),
    await ask(FIRST),
    await ask(FIRST),
    await ask(FIRST),
  ];
  expect(new Set(answers).size).toBe(1);
  expect(answers[0]).toContain("<title>x</title>");
});

test("a hook that only subscribes to the end changes nothing", async () => {
  const info = {
    name: "end",
    versions: ["v1alpha3"],
    hookPoints: [{ name: "Shutdown", priority: 0 }],
  };
  hooks.put(POD.uid, FIRST, { info });
  expect(await ask(FIRST)).toBe(DOMAIN);
});

describe("rejects an answer", () => {
  test.each<{ name: string; answer: (xml: string, count: number) => string; says: string }>([
    {
      name: "that lacks a NIC",
      answer: (xml) => xml.replace(/<interface.*<\/interface>/s, ""),
      says: "/domain/devices/interface[ua-one]: a hook cannot take it away",
    },
    { name: "that is no XML", answer: () => "<domain", says: "Unclosed" },
    { name: "that is empty", answer: () => "", says: "expected" },
    {
      name: "whose root element is not domain",
      answer: () => "<network/>",
      says: "its root element is network instead of domain",
    },
    {
      name: "that exceeds the size limit",
      answer: () => `<domain>${"x".repeat(300_000)}</domain>`,
      says: "it is too long",
    },
    {
      name: "that differs between two calls for the same domain",
      answer: (xml, count) => xml.replace("<os>", `<title>${String(count)}</title><os>`),
      says: "it returned different answers for the same domain at /domain/title",
    },
    {
      name: "with many forbidden elements, and counts the unlisted ones",
      answer: (xml) => xml.replace("</devices>", `${"<disk/>".repeat(7)}</devices>`),
      says: "and 2 more",
    },
  ])("$name", async ({ answer, says }) => {
    let count = 0;
    put(FIRST, (xml) => {
      count += 1;
      return answer(xml, count);
    });
    await expect(ask(FIRST)).rejects.toMatchObject({
      code: "HOOK_ANSWER_REFUSED",
      details: {
        hook: "marks (hook-sidecar-0)",
        call: "OnDefineDomain",
        reason: expect.stringContaining(says) as string,
      },
    });
    expect(hooks.openCount).toBe(0);
  });

  test.each([
    {
      versions: ["v1alpha1"],
      says: "it speaks no version of the protocol that is known (v1alpha1)",
    },
    { versions: [], says: "it speaks no version of the protocol that is known (none)" },
  ])("of a hook that speaks $versions", async ({ versions, says }) => {
    put(FIRST, (xml) => xml, { versions });
    await expect(ask(FIRST)).rejects.toMatchObject({
      code: "HOOK_ANSWER_REFUSED",
      details: { call: "Info", reason: expect.stringContaining(says) as string },
    });
  });
});

test("calls no hook unless all are reachable", async () => {
  put(FIRST, (xml) => xml);
  await expect(ask(FIRST, SECOND)).rejects.toMatchObject({
    code: "HOOK_UNREACHABLE",
    details: { hook: SECOND },
  });
  expect(hooks.calls).toEqual([]);
  expect(hooks.openCount).toBe(0);
});

test("notifies the hooks that subscribe to the end, in a version that supports it", async () => {
  const told: string[] = [];
  const hook = (name: string, version: string, ...points: readonly string[]) => ({
    info: {
      name,
      versions: [version],
      hookPoints: points.map((point) => ({ name: point, priority: 0 })),
    },
    shutdown: (): void => {
      told.push(name);
    },
  });
  hooks.put(POD.uid, FIRST, hook("new", "v1alpha3", "Shutdown"));
  hooks.put(POD.uid, SECOND, hook("old", "v1alpha2", "Shutdown"));
  hooks.put(POD.uid, "hook-sidecar-2", hook("other", "v1alpha3", "OnDefineDomain"));
  await notifyEnd({ pod: POD, sidecars: [FIRST, SECOND, "hook-sidecar-2"] }, hooks);
  expect(told).toEqual(["new"]);
  expect(hooks.openCount).toBe(0);
});
