// SPDX-License-Identifier: Apache-2.0
// How are quantities written? Source: Kubernetes resource.Quantity: one canonical text for each value and family of suffixes.

/** Steps of a family of suffixes, the smallest first. */
const DECIMAL: readonly string[] = ["n", "u", "m", "", "k", "M", "G", "T", "P", "E"];
const BINARY: readonly string[] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];
/** Nothing smaller is kept: values are rounded up to it. */
const NANO_DIGITS = 9;
const NANO = 10n ** BigInt(NANO_DIGITS);
/** Exponents beyond this are no quantities of anything. */
const EXPONENT_MAX = 30;

/** Reckoning with more digits takes the square of their number, nearly. */
const TEXT_MAX_LENGTH = 256;

const FORM = /^([+-]?)(\d*)(?:\.(\d*))?(?:[eE]([+-]?\d+)|([numkMGTPE]|[KMGTPE]i)?)$/;

interface Parsed {
  readonly nanos: bigint;
  readonly family: "decimal" | "binary" | "exponent";
}

function scaled(digits: string, fraction: string, power: bigint): bigint {
  const value = BigInt(`${digits}${fraction}`) * power;
  const divisor = 10n ** BigInt(fraction.length);
  // Away from zero: half a nano is one.
  return (value + divisor - 1n) / divisor;
}

/** How many nanos the suffix stands for; undefined where that is out of all bounds. */
function powerOf(exponent: string | undefined, suffix: string): bigint | undefined {
  if (suffix.endsWith("i")) {
    return 1024n ** BigInt(BINARY.indexOf(suffix)) * NANO;
  }
  const tens =
    exponent === undefined ? 3 * DECIMAL.indexOf(suffix) - NANO_DIGITS : Number(exponent);
  return Math.abs(tens) > EXPONENT_MAX ? undefined : 10n ** BigInt(Math.max(0, tens + NANO_DIGITS));
}

function familyOf(exponent: string | undefined, suffix: string): Parsed["family"] {
  if (exponent !== undefined) {
    return "exponent";
  }
  return suffix.endsWith("i") ? "binary" : "decimal";
}

function parse(text: string): Parsed | undefined {
  const match = text.length > TEXT_MAX_LENGTH ? null : FORM.exec(text);
  const [, sign, digits = "", fraction = "", exponent, suffix = ""] = match ?? [];
  if (match === null || digits + fraction === "") {
    return undefined;
  }
  const power = powerOf(exponent, suffix);
  if (power === undefined) {
    return undefined;
  }
  const nanos = scaled(digits, fraction, power);
  return { nanos: sign === "-" ? -nanos : nanos, family: familyOf(exponent, suffix) };
}

/** How often a value can be divided without a rest, at most `most` times. */
function steps(value: bigint, by: bigint, most: number): number {
  let count = 0;
  for (let rest = value; count < most && rest % by === 0n; rest /= by) {
    count += 1;
  }
  return count;
}

/** How many factors of 1,000 the text can express: an exponent has no largest suffix. */
function decimalStepsMax(family: Parsed["family"]): number {
  return family === "exponent" ? Infinity : DECIMAL.length - 1;
}

function print({ nanos, family }: Parsed): string {
  if (nanos === 0n) {
    return "0";
  }
  const size = nanos < 0n ? -nanos : nanos;
  if (family === "binary" && nanos % NANO === 0n && size >= 1024n * NANO) {
    const whole = nanos / NANO;
    const step = steps(whole, 1024n, BINARY.length - 1);
    return `${String(whole / 1024n ** BigInt(step))}${BINARY[step] ?? ""}`;
  }
  const step = steps(nanos, 1000n, decimalStepsMax(family));
  const mantissa = String(nanos / 1000n ** BigInt(step));
  const exponent = 3 * step - NANO_DIGITS;
  return family === "exponent" && exponent !== 0
    ? `${mantissa}e${String(exponent)}`
    : `${mantissa}${DECIMAL[step] ?? ""}`;
}

/** The canonical text of a quantity (a text or a number); undefined where it is none. */
export function canonicalQuantity(value: string): string | undefined {
  const parsed = parse(value.trim());
  return parsed === undefined ? undefined : print(parsed);
}
