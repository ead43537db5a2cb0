// SPDX-License-Identifier: Apache-2.0
// Reads single values as Go's decoder does: the same texts for what is wrong, the same canonical forms.
import { jsonTypeOf } from "../meta/decode-meta.ts";
import { parseTime, rfc3339 } from "../objects/time.ts";
import { canonicalQuantity } from "./quantity.ts";
import type { Scalar } from "./shape.ts";

/** A value that cannot be read; the message is Go's. */
export class DecodeError extends Error {
  override readonly name = "DecodeError";
}

/** The refusal of a value of the wrong type. `field`: the Go struct and the path, empty where there is none. */
export function wrongType(value: unknown, field: string, type: string): DecodeError {
  const where = field === "" ? "Go value" : `Go struct field ${field}`;
  const isNumber = typeof value === "number" || typeof value === "bigint";
  const shown =
    isNumber && /^u?int|^float/.test(type) ? `number ${String(value)}` : jsonTypeOf(value);
  return new DecodeError(`json: cannot unmarshal ${shown} into ${where} of type ${type}`);
}

const INT32_MAX = 2 ** 31 - 1;

function isInt32(value: unknown): boolean {
  return Number.isInteger(value) && Math.abs(Number(value)) <= INT32_MAX;
}

const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?/;

function readBytes(value: unknown, field: string): string {
  if (typeof value !== "string") {
    throw wrongType(value, field, "[]uint8");
  }
  const text = value.replace(/[\r\n]/g, "");
  const good = BASE64.exec(text)?.[0].length ?? 0;
  if (good !== text.length) {
    const bad = text.slice(good).search(/[^A-Za-z0-9+/]/);
    throw new DecodeError(
      `illegal base64 data at input byte ${String(bad < 0 ? text.length : good + bad)}`,
    );
  }
  return text;
}

const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/;

function readTime(value: unknown, layout: string): { ms: number; fraction: string } {
  if (typeof value !== "string") {
    throw wrongType(value, "", "string");
  }
  const match = TIME.exec(value);
  const ms = match === null ? NaN : parseTime(value);
  if (match === null || Number.isNaN(ms)) {
    throw new DecodeError(
      `parsing time ${JSON.stringify(value)} as "${layout}": cannot parse ${JSON.stringify(value)} as "2006"`,
    );
  }
  return { ms, fraction: (match[1] ?? "").slice(1) };
}

function readMicroTime(value: unknown): string {
  const { ms, fraction } = readTime(value, "2006-01-02T15:04:05.000000Z07:00");
  return rfc3339(ms).replace("Z", `.${fraction.slice(0, 6).padEnd(6, "0")}Z`);
}

function readQuantity(value: unknown): string {
  const given = typeof value === "string" || typeof value === "number" || typeof value === "bigint";
  const canonical = given ? canonicalQuantity(String(value)) : undefined;
  if (canonical === undefined) {
    throw new DecodeError(
      "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    );
  }
  return canonical;
}

function readIntOrString(value: unknown): unknown {
  if (typeof value === "string" || isInt32(value)) {
    return value;
  }
  throw wrongType(value, "", "int32");
}

type Reader = (value: unknown, field: string) => unknown;

function plain(accepts: (value: unknown) => boolean, type: string): Reader {
  return (value, field) => {
    if (!accepts(value)) {
      throw wrongType(value, field, type);
    }
    return value;
  };
}

/** How each kind of value is read; throws DecodeErrors. */
export const READERS: Readonly<Record<Scalar, Reader>> = {
  any: (value) => value,
  string: plain((value) => typeof value === "string", "string"),
  boolean: plain((value) => typeof value === "boolean", "bool"),
  int32: plain(isInt32, "int32"),
  int64: plain((value) => typeof value === "bigint" || Number.isInteger(value), "int64"),
  double: plain((value) => typeof value === "number" || typeof value === "bigint", "float64"),
  bytes: readBytes,
  time: (value) => rfc3339(readTime(value, "2006-01-02T15:04:05Z07:00").ms),
  "micro-time": readMicroTime,
  "int-or-string": readIntOrString,
  quantity: readQuantity,
};
