// SPDX-License-Identifier: Apache-2.0
// What an authority signs: certificates of servers and clients.
import { webcrypto } from "node:crypto";
import {
  AuthorityKeyIdentifierExtension,
  BasicConstraintsExtension,
  ExtendedKeyUsage,
  ExtendedKeyUsageExtension,
  type Extension,
  type JsonGeneralName,
  KeyUsageFlags,
  KeyUsagesExtension,
  SubjectAlternativeNameExtension,
  SubjectKeyIdentifierExtension,
  X509Certificate,
  X509CertificateGenerator,
} from "@peculiar/x509";
import { AppError, messageOf } from "@patchbay/core/errors";
import { KEY_ALGORITHM, type Authority } from "./authority.ts";
import { MS_PER_DAY, dateOf, pemOfKey, randomSerial } from "./encoding.ts";

/** Clocks of one installation may differ by this much. */
const CLOCK_SKEW_MS = 300_000;

/** What a certificate is for. Source: RFC 5280 4.2.1.12. */
export type CertificateUsage = "server" | "client";

/** What to put into a certificate. */
export interface CertificateRequest {
  /** For a client: the user. */
  readonly commonName: string;
  /** For a client: the groups. */
  readonly organizations: readonly string[];
  readonly dnsNames: readonly string[];
  readonly ipAddresses: readonly string[];
  readonly usages: readonly CertificateUsage[];
  /** Cut to the authority's own end. */
  readonly validDays: number;
}

/** A certificate and its key. `keyPem` is a secret. */
export interface IssuedCertificate {
  readonly certPem: string;
  /** PKCS #8. */
  readonly keyPem: string;
}

async function extensionsOf(
  authority: Authority,
  request: CertificateRequest,
  publicKey: webcrypto.CryptoKey,
): Promise<Extension[]> {
  const usages = request.usages.map((usage) =>
    usage === "server" ? ExtendedKeyUsage.serverAuth : ExtendedKeyUsage.clientAuth,
  );
  const names: JsonGeneralName[] = [
    ...request.dnsNames.map((value) => ({ type: "dns" as const, value })),
    ...request.ipAddresses.map((value) => ({ type: "ip" as const, value })),
  ];
  const alternatives = names.length === 0 ? [] : [new SubjectAlternativeNameExtension(names)];
  return [
    new BasicConstraintsExtension(false, undefined, true),
    new KeyUsagesExtension(KeyUsageFlags.digitalSignature, true),
    new ExtendedKeyUsageExtension(usages),
    ...alternatives,
    await SubjectKeyIdentifierExtension.create(publicKey),
    await AuthorityKeyIdentifierExtension.create(authority.certificate),
  ];
}

/** Makes a key and a certificate for it, signed by `authority`. */
export async function issueCertificate(
  authority: Authority,
  request: CertificateRequest,
): Promise<IssuedCertificate> {
  const keys = await webcrypto.subtle.generateKey(KEY_ALGORITHM, true, ["sign", "verify"]);
  const now = authority.clock.now();
  const end = Math.min(
    now + request.validDays * MS_PER_DAY,
    authority.certificate.notAfter.getTime(),
  );
  const organizations = request.organizations.map((organization) => ({ O: [organization] }));
  const certificate = await X509CertificateGenerator.create({
    serialNumber: randomSerial(),
    subject: [...organizations, { CN: [request.commonName] }],
    issuer: authority.certificate.subjectName,
    notBefore: dateOf(now - CLOCK_SKEW_MS),
    notAfter: dateOf(end),
    signingAlgorithm: KEY_ALGORITHM,
    publicKey: keys.publicKey,
    signingKey: authority.signingKey,
    extensions: await extensionsOf(authority, request, keys.publicKey),
  });
  return {
    certPem: `${certificate.toString("pem")}\n`,
    keyPem: await pemOfKey(keys.privateKey),
  };
}

/**
 * When a certificate ends, in milliseconds since 1970; for renewal.
 * @throws AppError with PKI_PEM_INVALID when it cannot be read.
 */
export function endOfCertificate(certPem: string): number {
  try {
    return new X509Certificate(certPem).notAfter.getTime();
  } catch (error) {
    throw new AppError(
      "PKI_PEM_INVALID",
      { what: "certificate", reason: messageOf(error) },
      { cause: error },
    );
  }
}
