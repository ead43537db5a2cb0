// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { isReadableSelection, NETWORKS_MAX, parseNetworks, printNetworks } from "./networks.ts";

test.each([
  { name: "a name with dots", text: "blue.v2", want: [{ name: "blue.v2" }] },
  {
    name: "a name with dots in JSON, and keys that are not known here",
    text: '[{"name":"blue.v2","namespace":"ns1","bandwidth":{"ingressRate":1}}]',
    want: [{ name: "blue.v2", namespace: "ns1", bandwidth: { ingressRate: 1 } }],
  },
  {
    name: "blanks around everything",
    text: " ns1 / blue @ net7 ,green",
    want: [{ name: "blue", namespace: "ns1", interface: "net7" }, { name: "green" }],
  },
  {
    name: "an interface of 15 bytes",
    text: '[{"name":"a","interface":"ééééééé1"}]',
    want: [{ name: "a", interface: "ééééééé1" }],
  },
  { name: "nothing", text: " ", want: [] },
])("$name is read", ({ text, want }) => {
  expect(parseNetworks(text)).toEqual({ ok: true, elements: want });
});

test.each([
  { name: "a namespace with dots", text: "a.b/c", want: 'namespace "a.b" is no name' },
  { name: "a name that ends with a dot", text: "blue.", want: 'network "blue." is no name' },
  { name: "no name at all", text: '[{"interface":"net1"}]', want: "element 0: name is no string" },
  { name: "an empty namespace", text: "/blue", want: '"/blue" is no [namespace/]name' },
  { name: "an empty interface", text: "blue@", want: '"blue@" is no [namespace/]name' },
  {
    name: "an interface of 15 characters that are 16 bytes",
    text: '[{"name":"a","interface":"é12345678901234"}]',
    want: "has 1 to 15 bytes",
  },
  {
    name: "an interface with a control character",
    text: '[{"name":"a","interface":"net\\u00071"}]',
    want: "is no name of a link",
  },
  {
    name: "a deprecated key with a bad name",
    text: '[{"name":"a","interfaceRequest":"a/b"}]',
    want: "is no name of a link",
  },
])("$name is refused", ({ text, want }) => {
  const parsed = parseNetworks(text);
  expect(parsed.ok ? "" : parsed.reason).toContain(want);
});

describe("too much", () => {
  const names = (count: number): string => Array.from({ length: count }, () => "a").join(",");

  test("as many networks as there may be are read", () => {
    expect(parseNetworks(names(NETWORKS_MAX))).toMatchObject({ ok: true });
  });

  test.each([
    { name: "one network too many", text: names(NETWORKS_MAX + 1) },
    {
      name: "one network too many, as JSON",
      text: JSON.stringify(Array.from({ length: NETWORKS_MAX + 1 }, () => ({ name: "a" }))),
    },
  ])("$name is refused", ({ text }) => {
    expect(parseNetworks(text)).toEqual({ ok: false, reason: "it names more than 64 networks" });
  });

  test("a text that is too long is not looked at", () => {
    expect(parseNetworks(`[${" ".repeat(70_000)}`)).toEqual({
      ok: false,
      reason: "it is longer than 65536 characters",
    });
  });

  test("a refusal repeats no more than the head of what it refuses", () => {
    const parsed = parseNetworks("A".repeat(60_000));
    expect(parsed.ok ? "" : parsed.reason.length).toBeLessThan(200);
  });
});

test("what is readable is read again as it was written", () => {
  const element = { name: "a.b", namespace: "ns1", interface: "pod0123456789a" };
  expect(isReadableSelection(element)).toBe(true);
  expect(parseNetworks(printNetworks([element]))).toEqual({ ok: true, elements: [element] });
  expect(isReadableSelection({ ...element, namespace: "a.b" })).toBe(false);
});
