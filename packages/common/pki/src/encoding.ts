// SPDX-License-Identifier: Apache-2.0
import { KeyObject, randomBytes, webcrypto } from "node:crypto";
import type { Clock } from "@patchbay/base";

export const MS_PER_DAY = 86_400_000;

/** `ms` since 1970, in the type of the certificate library. */
export function toDate(ms: number): Date {
  // oxlint-disable-next-line no-restricted-globals -- converts a given time, does not read the clock
  return new Date(ms);
}

/** A positive serial number of 128 random bits, hexadecimal. Source: RFC 5280 4.1.2.2 */
export function randomSerial(): string {
  return `01${randomBytes(15).toString("hex")}`;
}

export function pemOfKey(key: webcrypto.CryptoKey): string {
  return KeyObject.from(key).export({ type: "pkcs8", format: "pem" }).toString();
}

/** A new P-256 signing key as PKCS #8 PEM. Secret. */
export async function createSigningKey(): Promise<string> {
  const algorithm = { name: "ECDSA", namedCurve: "P-256" };
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);
  return pemOfKey(keys.privateKey);
}

/** Source: RFC 5280 4.2.1.12 */
export type CertificateUsage = "server" | "client";

export interface CertificateRequest {
  /** For a client: the user. */
  readonly commonName: string;
  /** For a client: the groups. */
  readonly organizations: readonly string[];
  readonly dnsNames: readonly string[];
  readonly ipAddresses: readonly string[];
  readonly usages: readonly CertificateUsage[];
  /** Limited by the authority's own end. */
  readonly validDays: number;
}

/** `keyPem` is secret. */
export interface IssuedCertificate {
  readonly certPem: string;
  /** PKCS #8. */
  readonly keyPem: string;
}

/** `keyPem` is secret. */
export interface Authority extends IssuedCertificate {
  readonly clock: Pick<Clock, "now">;
}
