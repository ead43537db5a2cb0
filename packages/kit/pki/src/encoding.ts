// SPDX-License-Identifier: Apache-2.0
// How keys, serial numbers and times are written into certificates.
import { KeyObject, randomBytes, webcrypto } from "node:crypto";

/** Milliseconds of a day. */
export const MS_PER_DAY = 86_400_000;

/** The time `ms` (since 1970) as the certificate library wants it. */
export function dateOf(ms: number): Date {
  // oxlint-disable-next-line no-restricted-globals -- converts a given time, does not read the clock
  return new Date(ms);
}

/** A positive serial number of 128 random bits, hexadecimal. Source: RFC 5280 4.1.2.2. */
export function randomSerial(): string {
  return `01${randomBytes(15).toString("hex")}`;
}

/** The private key as PKCS #8 PEM. */
export function pemOfKey(key: webcrypto.CryptoKey): string {
  return KeyObject.from(key).export({ type: "pkcs8", format: "pem" }).toString();
}

/** A new private key on P-256 that signs, as PKCS #8 PEM. Secret. */
export async function createSigningKey(): Promise<string> {
  const algorithm = { name: "ECDSA", namedCurve: "P-256" };
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);
  return pemOfKey(keys.privateKey);
}
