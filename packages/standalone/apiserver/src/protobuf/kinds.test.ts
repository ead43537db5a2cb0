// SPDX-License-Identifier: Apache-2.0
// Every kind that is accepted as protobuf: no field of a body is lost.
import { describe, expect, test } from "vitest";
import { encodeBytes, encodeNumber, encodeProtobuf } from "../testing/protobuf.ts";
import { decodeProtobuf } from "./decode.ts";
import { type Field, type FieldType, METADATA } from "./fields.ts";
import { MESSAGES } from "./messages.ts";

const SAMPLES: Readonly<Record<Exclude<FieldType, object>, unknown>> = {
  text: "a",
  bytes: "AQI=",
  integer: 7,
  boolean: false,
  count: 7,
  flag: true,
  time: "2024-01-01T02:05:52Z",
  microTime: "2024-01-01T02:05:52.000123Z",
  integerOrText: "5%",
  quantity: "1500m",
  ignored: undefined,
  empty: undefined,
};

function sampleOf({ type, collection }: Field): unknown {
  const one = typeof type === "string" ? SAMPLES[type] : sampleMessage(type.message);
  if (one === undefined) return undefined;
  return collection === "list" ? [one, one] : collection === "map" ? { a: one, b: one } : one;
}

/** A message with a value in each field. */
function sampleMessage(name: string): Record<string, unknown> {
  const fields = Object.values(MESSAGES[name] ?? {}).map((field): Record<string, unknown> => {
    const value = sampleOf(field);
    if (value === undefined) return {};
    return field.collection === "inline" ? { ...value } : { [field.name]: value };
  });
  return Object.assign({}, ...fields) as Record<string, unknown>;
}

const KINDS = Object.keys(MESSAGES).filter((name) => MESSAGES[name]?.[1] === METADATA);
const head = (kind: string) => ({ apiVersion: "v1", kind });
/** Messages that have a table, with the numbers of the fields up to 64 that they lack. */
const MISSING = Object.entries(MESSAGES).map(([name, message]) => ({
  name,
  numbers: Array.from({ length: 64 }, (_, index) => index + 1).filter(
    (number) => message[number] === undefined,
  ),
}));

test("are the usual kinds", () => {
  expect(KINDS).toEqual(expect.arrayContaining(["Namespace", "Service", "Deployment", "Lease"]));
  expect(KINDS).not.toContain("Pod");
});

describe.each(KINDS)("%s", (kind) => {
  const object = { ...head(kind), ...sampleMessage(kind) };

  test("retains each field of its tables", () => {
    expect(decodeProtobuf(encodeProtobuf(object))).toEqual(object);
  });

  test("is rejected if a field without a table has a value", () => {
    for (const more of [encodeNumber(60, 0), encodeBytes(60, "x")]) {
      expect(decodeProtobuf(encodeProtobuf(object, more))).toBeUndefined();
    }
  });

  test("is rejected in requests for its status, unless the status has a table", () => {
    const hasTable = MESSAGES[kind]?.[3]?.type !== "empty";
    const decoded = decodeProtobuf(encodeProtobuf(object), "status");
    expect(decoded).toEqual(hasTable ? object : undefined);
  });
});

/** A body of the first kind that contains the message, with `more` in each occurrence; undefined if no kind contains it. */
function bodyWith(name: string, more: Buffer): Buffer | undefined {
  const path = KINDS.map((kind) => findPath(kind, name)).find((each) => each !== undefined);
  const [kind = "", ...numbers] = path ?? [];
  if (path === undefined) return undefined;
  const nested = numbers.reduceRight<Buffer>(
    (content, number) => encodeBytes(Number(number), content),
    more,
  );
  return encodeProtobuf(head(kind), nested);
}

/** Field numbers from a message to another one, after the message's own name. */
function findPath(from: string, to: string): readonly string[] | undefined {
  if (from === to) return [from];
  for (const [number, { type, collection }] of Object.entries(MESSAGES[from] ?? {})) {
    if (typeof type === "string" || collection === "map") continue;
    const rest = findPath(type.message, to);
    if (rest !== undefined) return [from, number, ...rest.slice(1)];
  }
  return undefined;
}

test.each(MISSING)("$name rejects each field that its table lacks", ({ name, numbers }) => {
  const accepted = numbers.filter((number) =>
    [encodeNumber(number, 0), encodeBytes(number, "x")].some((more) => {
      const body = bodyWith(name, more);
      return body === undefined || decodeProtobuf(body) !== undefined;
    }),
  );
  expect(accepted).toEqual([]);
});
