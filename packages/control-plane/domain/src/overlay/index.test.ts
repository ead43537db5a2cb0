// SPDX-License-Identifier: Apache-2.0
// What is taken of a domain that somebody else has written, and what of it is told.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { readXml, writeXml, type XmlElement, mergeDomain } from "./index.ts";

const INPUT = readFileSync(join(import.meta.dirname, "../xml/__golden__/q35-2-nics.xml"), "utf8");

function read(xml: string): XmlElement {
  const result = readXml(xml);
  if (!result.ok) throw new Error(result.reason);
  return result.root;
}

/** What the answer comes to, beside what was given. */
function laid(answer: (xml: string) => string): {
  readonly xml: string;
  readonly changes: readonly string[];
} {
  const { root, changes } = mergeDomain(read(INPUT), read(answer(INPUT)));
  const reported = changes.map(({ kind, where, oldValue: from, newValue: to }) =>
    [kind, where, ...(from === "" && to === "" ? [] : [`${from} -> ${to}`])].join(" "),
  );
  return { xml: writeXml(root), changes: reported };
}

test("round-trips the document", () => {
  expect(laid((xml) => xml)).toEqual({ xml: writeXml(read(INPUT)), changes: [] });
});

describe("accepts and reports additions", () => {
  test.each<{ name: string; answer: (xml: string) => string; changes: string[]; has: string }>([
    {
      name: "an element",
      answer: (xml) => xml.replace("</os>", "<smbios mode='sysinfo'/></os>"),
      changes: ["added /domain/os/smbios"],
      has: '<smbios mode="sysinfo"/>',
    },
    {
      name: "an attribute",
      answer: (xml) => xml.replace("<acpi/>", "<acpi x='1'/>"),
      changes: ["added /domain/features/acpi/@x  -> 1"],
      has: '<acpi x="1"/>',
    },
    {
      name: "a changed text",
      answer: (xml) => xml.replace("<vcpu>1<", "<vcpu>2<"),
      changes: ["changed /domain/vcpu 1 -> 2"],
      has: "<vcpu>2</vcpu>",
    },
    {
      name: "a changed attribute of a device with an alias",
      answer: (xml) => xml.replace("02:00:00:00:00:01", "02:00:00:00:00:99"),
      changes: [
        "changed /domain/devices/interface[ua-net1]/mac/@address 02:00:00:00:00:01 -> 02:00:00:00:00:99",
      ],
      has: "02:00:00:00:00:99",
    },
    {
      name: "an additional device",
      answer: (xml) =>
        xml.replace(
          "</devices>",
          "<interface type='user'><alias name='ua-x'/></interface></devices>",
        ),
      changes: ["added /domain/devices/interface[ua-x]"],
      has: '<interface type="user">',
    },
    {
      name: "a second element with the same name",
      answer: (xml) =>
        xml.replace('<mac address="02:00:00:00:00:00"/>', (mac) => `${mac}<mac address="02:ff"/>`),
      changes: ["added /domain/devices/interface[ua-net0]/mac"],
      has: '<mac address="02:ff"/>',
    },
    {
      name: "numeric character references, as Go writes them",
      answer: (xml) => xml.replace("</os>", "</os><title>a&#34;&#xA;b</title>"),
      changes: ["added /domain/title"],
      has: "<title>a&quot;\nb</title>",
    },
  ])("$name", ({ answer, changes, has }) => {
    const { xml, changes: reported } = laid(answer);
    expect(reported).toEqual(changes);
    expect(xml).toContain(has);
  });
});

describe("retains and reports omissions", () => {
  test.each([
    { name: "an element", gone: "<apic/>", changes: ["missing /domain/features/apic"] },
    { name: "a text", gone: "destroy</on_crash>", put: "</on_crash>", changes: [] },
    { name: "an attribute", gone: ' managed="no"', changes: [] },
    {
      name: "a device",
      gone: /<interface type="ethernet">\s*<mac address="02:00:00:00:00:01".*?<\/interface>/s,
      changes: ["missing /domain/devices/interface[ua-net1]"],
    },
    {
      name: "a port",
      gone: /<controller type="pci" index="9".*?<\/controller>/s,
      changes: ["missing /domain/devices/controller[pci 9]"],
    },
  ])("$name", ({ gone: deleted, put = "", changes }) => {
    expect(INPUT).toMatch(deleted);
    const { xml, changes: reported } = laid((input) => input.replace(deleted, put));
    expect(reported).toEqual(changes);
    expect(xml).toBe(writeXml(read(INPUT)));
  });
});

test("matches devices in any order", () => {
  const nics = [...INPUT.matchAll(/<interface.*?<\/interface>/gs)].map(([nic]) => nic);
  const turned = INPUT.replace(nics.join("\n    "), nics.toReversed().join("\n    "));
  expect(turned).not.toBe(INPUT);
  expect(laid(() => turned).changes).toEqual([]);
});

describe("rejects a document", () => {
  test.each([
    ["<a", "Unclosed"],
    ["", "expected"],
    ["words", "expected"],
    ["<a/><b/>", "exactly one root"],
    ["<!DOCTYPE a><a/>", "DOCTYPE"],
    ["<a><__proto__/></a>", "__proto__"],
    ["<a x='1' x='2'/>", "repeated"],
    [`<a>${"<b>".repeat(100)}${"</b>".repeat(100)}</a>`, "levels"],
    [`<a>${" ".repeat(300_000)}</a>`, "too long"],
  ])("%j", (xml, reason) => {
    const result = readXml(xml);
    expect(result.ok ? "" : result.reason).toContain(reason);
  });
});
