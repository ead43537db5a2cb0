// SPDX-License-Identifier: Apache-2.0
// Decodes scalars. Error messages and canonical forms are those of Go's decoder. Source: Kubernetes resource.Quantity.
import { jsonTypeOf } from "../meta/metadata.ts";
import { parseTime, rfc3339 } from "../objects/time.ts";
import type { Scalar } from "./shape.ts";

const DECIMAL_SUFFIXES: readonly string[] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
const BINARY_SUFFIXES: readonly string[] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
/** Maximum number of decimal places of a quantity. Quantities with more decimal places are rounded up. */
const NANO_DIGITS = 9;
export const NANO: bigint = 10n ** BigInt(NANO_DIGITS);
const EXPONENT_MAX = 30;

/** Maximum length of a quantity in characters. It is small, because BigInt arithmetic takes nearly quadratic time. */
const QUANTITY_MAX_LENGTH = 256;

const QUANTITY_PATTERN = /^([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d+)|([numkMGTPE]|[KMGTPE]i)?)$/;

export interface Quantity {
  readonly nanos: bigint;
  readonly family: "decimal" | "binary" | "exponent";
}

function scaleUp(digits: string, fraction: string, power: bigint): bigint {
  const value = BigInt(`${digits}${fraction}`) * power;
  const divisor = 10n ** BigInt(fraction.length);
  return (value + divisor - 1n) / divisor;
}

/** Returns the suffix's factor in units of 10^-9, or undefined if the exponent is out of range. */
function suffixFactor(exponent: string | undefined, suffix: string): bigint | undefined {
  if (suffix.endsWith("i")) {
    return 1024n ** BigInt(BINARY_SUFFIXES.indexOf(suffix)) * NANO;
  }
  const powerOfTen =
    exponent === undefined ? 3 * DECIMAL_SUFFIXES.indexOf(suffix) - NANO_DIGITS : Number(exponent);
  return Math.abs(powerOfTen) > EXPONENT_MAX
    ? undefined
    : 10n ** BigInt(Math.max(0, powerOfTen + NANO_DIGITS));
}

function suffixFamily(exponent: string | undefined, suffix: string): Quantity["family"] {
  if (exponent !== undefined) {
    return "exponent";
  }
  return suffix.endsWith("i") ? "binary" : "decimal";
}

export function parseQuantity(text: string): Quantity | undefined {
  const match = text.length > QUANTITY_MAX_LENGTH ? null : QUANTITY_PATTERN.exec(text);
  const [, sign, digits = "", fraction = "", exponent, suffix = ""] = match ?? [];
  if (match === null || digits + fraction === "") {
    return undefined;
  }
  const power = suffixFactor(exponent, suffix);
  if (power === undefined) {
    return undefined;
  }
  const nanos = scaleUp(digits, fraction, power);
  return { nanos: sign === "-" ? -nanos : nanos, family: suffixFamily(exponent, suffix) };
}

function countDivisions(value: bigint, divisor: bigint, max: number): number {
  let count = 0;
  for (let remaining = value; count < max && remaining % divisor === 0n; remaining /= divisor) {
    count += 1;
  }
  return count;
}

/** Returns how many times a number may be divided by 1,000 for printing. Suffixes end at E (10^18); exponents have no limit. */
function decimalStepsMax(family: Quantity["family"]): number {
  return family === "exponent" ? Infinity : DECIMAL_SUFFIXES.length - 1;
}

export function printQuantity({ nanos, family }: Quantity): string {
  if (nanos === 0n) {
    return "0";
  }
  const size = nanos < 0n ? -nanos : nanos;
  if (family === "binary" && nanos % NANO === 0n && size >= 1024n * NANO) {
    const units = nanos / NANO;
    const suffixIndex = countDivisions(units, 1024n, BINARY_SUFFIXES.length - 1);
    return `${String(units / 1024n ** BigInt(suffixIndex))}${BINARY_SUFFIXES[suffixIndex] ?? ""}`;
  }
  const suffixIndex = countDivisions(nanos, 1000n, decimalStepsMax(family));
  const mantissa = String(nanos / 1000n ** BigInt(suffixIndex));
  const exponent = 3 * suffixIndex - NANO_DIGITS;
  return family === "exponent" && exponent !== 0
    ? `${mantissa}e${String(exponent)}`
    : `${mantissa}${DECIMAL_SUFFIXES[suffixIndex] ?? ""}`;
}

export function canonicalQuantity(value: string): string | undefined {
  const quantity = parseQuantity(value.trim());
  return quantity === undefined ? undefined : printQuantity(quantity);
}

export class DecodeError extends Error {
  override readonly name = "DecodeError";
}

/** Creates Go's error for a value of the wrong type. `field` is the Go struct and the path, or empty. */
export function wrongType(value: unknown, field: string, type: string): DecodeError {
  const location = field === "" ? "Go value" : `Go struct field ${field}`;
  const isNumber = typeof value === "number" || typeof value === "bigint";
  const printedType =
    isNumber && /^u?int|^float/.test(type) ? `number ${String(value)}` : jsonTypeOf(value);
  return new DecodeError(`json: cannot unmarshal ${printedType} into ${location} of type ${type}`);
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
  const validLength = BASE64.exec(text)?.[0].length ?? 0;
  if (validLength !== text.length) {
    const invalidOffset = text.slice(validLength).search(/[^A-Za-z0-9+/]/);
    throw new DecodeError(
      `illegal base64 data at input byte ${String(invalidOffset < 0 ? text.length : validLength + invalidOffset)}`,
    );
  }
  return text;
}

const TIME_PATTERN = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/;

function readTime(value: unknown, layout: string): { ms: number; fraction: string } {
  if (typeof value !== "string") {
    throw wrongType(value, "", "string");
  }
  const match = TIME_PATTERN.exec(value);
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
  const isSupported =
    typeof value === "string" || typeof value === "number" || typeof value === "bigint";
  const canonicalValue = isSupported ? canonicalQuantity(String(value)) : undefined;
  if (canonicalValue === undefined) {
    throw new DecodeError(
      "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    );
  }
  return canonicalValue;
}

function readIntOrString(value: unknown): unknown {
  if (typeof value === "string" || isInt32(value)) {
    return value;
  }
  throw wrongType(value, "", "int32");
}

type Reader = (value: unknown, field: string) => unknown;

function makeReader(isAccepted: (value: unknown) => boolean, type: string): Reader {
  return (value, field) => {
    if (!isAccepted(value)) {
      throw wrongType(value, field, type);
    }
    return value;
  };
}

export const READERS: Readonly<Record<Scalar, Reader>> = {
  any: (value) => value,
  string: makeReader((value) => typeof value === "string", "string"),
  boolean: makeReader((value) => typeof value === "boolean", "bool"),
  int32: makeReader(isInt32, "int32"),
  int64: makeReader((value) => typeof value === "bigint" || Number.isInteger(value), "int64"),
  double: makeReader((value) => typeof value === "number" || typeof value === "bigint", "float64"),
  bytes: readBytes,
  time: (value) => rfc3339(readTime(value, "2006-01-02T15:04:05Z07:00").ms),
  "micro-time": readMicroTime,
  "int-or-string": readIntOrString,
  quantity: readQuantity,
};
