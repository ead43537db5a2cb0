// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { parseRequestedAddresses, validateRequestedAddresses } from "./requested-addresses.ts";

const NAME = "network.kubevirt.io/addresses";

function metadataWith(text: string): { readonly annotations: Readonly<Record<string, string>> } {
  return { annotations: { [NAME]: text } };
}

describe("the requested addresses", () => {
  test.each<{ name: string; text: string; want: readonly unknown[] }>([
    {
      name: "are those of both families",
      text: '{"one":["10.0.0.5","fd00::5"],"two":["10.0.0.6"]}',
      want: [
        ["one", ["10.0.0.5", "fd00::5"]],
        ["two", ["10.0.0.6"]],
      ],
    },
    { name: "omit empty lists", text: '{"one":[]}', want: [] },
    { name: "of an invalid value are none", text: '{"one":["10.0.0.5"],"two":["x"]}', want: [] },
  ])("$name", ({ text, want }) => {
    expect([...parseRequestedAddresses(metadataWith(text))]).toEqual(want);
  });

  test("are none without the annotation", () => {
    expect([...parseRequestedAddresses({})]).toEqual([]);
    expect([...parseRequestedAddresses(undefined)]).toEqual([]);
  });
});

describe("an invalid annotation", () => {
  const families = 'interface "one" may request one IPv4 and one IPv6 address';
  const shape = "the value is not a JSON object with lists of addresses by interface";
  test.each<{ text: string; want: readonly string[] }>([
    { text: "10.0.0.5", want: [shape] },
    { text: '["10.0.0.5"]', want: [shape] },
    { text: '{"one":"10.0.0.5"}', want: ['the addresses of interface "one" are not a list'] },
    {
      text: '{"one":["10.0.0.5/24"],"two":["10.0.0.256"],"three":[5]}',
      want: [
        '"10.0.0.5/24" of interface "one" is not an IP address without prefix length',
        '"10.0.0.256" of interface "two" is not an IP address without prefix length',
        '5 of interface "three" is not an IP address without prefix length',
      ],
    },
    { text: '{"one":["10.0.0.5","10.0.0.6"]}', want: [families] },
    { text: '{"one":["10.0.0.5","fd00::5","fd00::6"]}', want: [families] },
    { text: '{"one":["10.0.0.5","fd00::5"],"two":[]}', want: [] },
  ])("$text", ({ text, want }) => {
    const causes = validateRequestedAddresses(metadataWith(text), "spec.template.metadata");
    expect(causes).toEqual(
      want.map((message) => ({
        reason: "FieldValueInvalid",
        field: `spec.template.metadata.annotations[${NAME}]`,
        message,
      })),
    );
  });

  test("is not reported again while it is unchanged", () => {
    const metadata = metadataWith("x");
    expect(validateRequestedAddresses(metadata, "metadata", metadata)).toEqual([]);
    expect(validateRequestedAddresses(metadata, "metadata", metadataWith("y"))).toHaveLength(1);
    expect(validateRequestedAddresses(undefined, "metadata")).toEqual([]);
  });
});
