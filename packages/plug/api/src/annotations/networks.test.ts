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
  {
    name: "every key",
    text: '[{"name":"a","namespace":"b","mac":"c","interface":"d","interfaceRequest":"e","ips":["f"],"cni-args":{}}]',
    want: [
      {
        name: "a",
        namespace: "b",
        mac: "c",
        interface: "d",
        interfaceRequest: "e",
        ips: ["f"],
        "cni-args": {},
      },
    ],
  },
  {
    name: "an interface that is empty, and arguments that are null",
    text: '[{"name":"a","interface":"","namespace":"","cni-args":null}]',
    want: [{ name: "a", interface: "", namespace: "", "cni-args": null }],
  },
  { name: "a text as long as can be", text: " ".repeat(64 * 1024), want: [] },
  { name: "nothing", text: " ", want: [] },
  { name: "an absent annotation", text: undefined, want: [] },
])("$name is read", ({ text, want }) => {
  expect(parseNetworks(text)).toStrictEqual({ ok: true, elements: want });
});

test.each([
  { text: "a,,b", reason: '"" is not of the form [namespace/]name[@interface]' },
  { text: " a/b/c ", reason: '"a/b/c" is not of the form [namespace/]name[@interface]' },
  { text: " @net1 ", reason: '"@net1" is not of the form [namespace/]name[@interface]' },
  { text: "{}", reason: "the value is not a JSON list" },
  { text: "[", reason: "the value is not valid JSON" },
  { text: '["a"]', reason: "element 0 is not an object" },
  { text: '[{"name":"a"},[]]', reason: "element 1 is not an object" },
  { text: '[{"name":1}]', reason: "element 0: name is not a string" },
  { text: '[{"name":"a","namespace":1}]', reason: "element 0: namespace is not a string" },
  { text: '[{"name":"a","mac":{}}]', reason: "element 0: mac is not a string" },
  { text: '[{"name":"a","interface":null}]', reason: "element 0: interface is not a string" },
  {
    text: '[{"name":"a","interfaceRequest":0}]',
    reason: "element 0: interfaceRequest is not a string",
  },
  { text: '[{"name":"a","ips":"10.0.0.1"}]', reason: "element 0: ips is not a list of strings" },
  {
    text: '[{"name":"a","ips":["10.0.0.1",2]}]',
    reason: "element 0: ips is not a list of strings",
  },
  { text: '[{"name":"a","cni-args":[]}]', reason: "element 0: cni-args is not an object" },
  {
    text: "A".repeat(63),
    reason: `network "${"A".repeat(63)}" is not a valid object name`,
  },
  {
    text: "A".repeat(64),
    reason: `network "${"A".repeat(63)}…" is not a valid object name`,
  },
])("$text is refused: $reason", ({ text, reason }) => {
  expect(parseNetworks(text)).toEqual({ ok: false, reason });
});

test.each([
  { name: "a namespace with dots", text: "a.b/c", want: 'namespace "a.b" is not a valid' },
  { name: "a name that ends with a dot", text: "blue.", want: 'network "blue." is not a valid' },
  {
    name: "no name at all",
    text: '[{"interface":"net1"}]',
    want: "element 0: name is not a string",
  },
  {
    name: "an empty namespace",
    text: "/blue",
    want: '"/blue" is not of the form [namespace/]name',
  },
  {
    name: "an empty interface",
    text: "blue@",
    want: '"blue@" is not of the form [namespace/]name',
  },
  {
    name: "an interface of 15 characters that are 16 bytes",
    text: '[{"name":"a","interface":"é12345678901234"}]',
    want: "has 1 to 15 bytes",
  },
  {
    name: "an interface with a control character",
    text: '[{"name":"a","interface":"net\\u00071"}]',
    want: "is not a valid link name",
  },
  {
    name: "a deprecated key with a bad name",
    text: '[{"name":"a","interfaceRequest":"a/b"}]',
    want: "is not a valid link name",
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
