// SPDX-License-Identifier: Apache-2.0
import { KeyObject, randomBytes, webcrypto } from "node:crypto";
import type { Clock } from "@patchbay/base";

export const MS_PER_DAY = 86_400_000;

/** Converts milliseconds since 1970 to a Date, which the certificate library requires. */
export function toDate(ms: number): Date {
  // oxlint-disable-next-line no-restricted-globals -- converts a given time, does not read the clock
  return new Date(ms);
}

/** Returns a positive serial number with 120 random bits, in hexadecimal. Source: RFC 5280, 4.1.2.2. */
export function randomSerial(): string {
  return `01${randomBytes(15).toString("hex")}`;
}

export function printKey(key: webcrypto.CryptoKey): string {
  return KeyObject.from(key).export({ type: "pkcs8", format: "pem" }).toString();
}

/** Creates a private P-256 key for signatures, as PKCS #8 in PEM. */
export async function createSigningKey(): Promise<string> {
  const algorithm = { name: "ECDSA", namedCurve: "P-256" };
  const keys = await webcrypto.subtle.generateKey(algorithm, true, ["sign", "verify"]);
  return printKey(keys.privateKey);
}

/** Extended key usage of a certificate. Source: RFC 5280, 4.2.1.12. */
export type CertificateUsage = "server" | "client";

export interface CertificateRequest {
  /** Name of the subject. The API server uses the name in a client's certificate as the name of the user. */
  readonly commonName: string;
  /** Organizations of the subject. The API server uses the organizations in a client's certificate as groups. */
  readonly organizations: readonly string[];
  readonly dnsNames: readonly string[];
  readonly ipAddresses: readonly string[];
  readonly usages: readonly CertificateUsage[];
  /** Requested validity. The certificate expires no later than the authority. */
  readonly validDays: number;
}

export interface IssuedCertificate {
  readonly certPem: string;
  readonly keyPem: string;
}

export interface Authority extends IssuedCertificate {
  readonly clock: Pick<Clock, "now">;
}
