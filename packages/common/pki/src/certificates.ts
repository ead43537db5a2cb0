// SPDX-License-Identifier: Apache-2.0
import { createPrivateKey, X509Certificate } from "node:crypto";
import { AppError, messageOf, type Clock } from "@patchbay/base";

import {
  type Authority,
  type CertificateRequest,
  type IssuedCertificate,
  MS_PER_DAY,
} from "./encoding.ts";

export async function issueCertificate(
  authority: Authority,
  request: CertificateRequest,
): Promise<IssuedCertificate> {
  const { signCertificate } = await import("./signing.ts");
  return signCertificate(authority, request, authority.clock.now());
}

/** Creates a certificate for an existing P-256 key, both PEM. */
export async function certifyKey(
  authority: Authority,
  publicKeyPem: string,
  request: CertificateRequest,
): Promise<string> {
  const { signKey } = await import("./signing.ts");
  return signKey(authority, publicKeyPem, { request, nowMs: authority.clock.now() });
}

function read(certPem: string): X509Certificate {
  try {
    return new X509Certificate(certPem);
  } catch (error) {
    throw new AppError(
      "PKI_PEM_INVALID",
      { what: "certificate", reason: messageOf(error) },
      { cause: error },
    );
  }
}

/** Milliseconds since 1970. @throws AppError with PKI_PEM_INVALID if it cannot be read */
export function readCertificateEnd(certPem: string): number {
  return read(certPem).validToDate.getTime();
}

/** Milliseconds since 1970. @throws AppError with PKI_PEM_INVALID if it cannot be read */
export function readCertificateStart(certPem: string): number {
  return read(certPem).validFromDate.getTime();
}

function toTexts(value: unknown): readonly string[] {
  return [value].flat().filter((text): text is string => typeof text === "string");
}

/** @throws AppError with PKI_PEM_INVALID if it cannot be read */
export function readCertificateSubject(
  certPem: string,
): Pick<CertificateRequest, "commonName" | "organizations"> {
  // Node.js returns attributes as strings, or as lists of strings.
  const subject: Readonly<Record<string, unknown>> = { ...read(certPem).toLegacyObject().subject };
  const [commonName = ""] = toTexts(subject["CN"]);
  return { commonName, organizations: toTexts(subject["O"]) };
}

const PEM_CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** Certificates of a bundle in order, each with a trailing newline; ignores other text. */
export function splitBundle(bundlePem: string): readonly string[] {
  return (bundlePem.match(PEM_CERTIFICATE) ?? []).map((pem) => `${pem}\n`);
}

/** @throws AppError with PKI_PEM_INVALID if either certificate cannot be read */
export function isIssuedFor(certPem: string, authorityPem: string, host: string): boolean {
  const [certificate, authority] = [read(certPem), read(authorityPem)];
  return (
    certificate.checkHost(host) !== undefined &&
    certificate.checkIssued(authority) &&
    certificate.verify(authority.publicKey)
  );
}

/** @throws AppError with PKI_PEM_INVALID if either cannot be read */
export function isMatchingKey(certPem: string, keyPem: string): boolean {
  try {
    return read(certPem).checkPrivateKey(createPrivateKey(keyPem));
  } catch (error) {
    if (error instanceof AppError) throw error;
    const reason = messageOf(error);
    throw new AppError("PKI_PEM_INVALID", { what: "private key", reason }, { cause: error });
  }
}

/** Whether the certificate is also for that IP address. @throws AppError with PKI_PEM_INVALID if it cannot be read */
export function isIssuedForAddress(certPem: string, ip: string): boolean {
  return read(certPem).checkIP(ip) !== undefined;
}

/** Ten years: an authority outlives its certificates. */
const AUTHORITY_VALID_DAYS = 3650;

export async function createAuthority(
  commonName: string,
  clock: Pick<Clock, "now">,
): Promise<Authority> {
  const { signAuthority } = await import("./signing.ts");
  const now = clock.now();
  const endMs = now + AUTHORITY_VALID_DAYS * MS_PER_DAY;
  return { ...(await signAuthority({ commonName, endMs }, now)), clock };
}

/**
 * Renews an authority for ten years. Name and key stay, so clients that trust the old certificate trust new
 * signatures, and the reverse.
 * @throws AppError with PKI_PEM_INVALID if its certificate cannot be read
 */
export async function renewAuthority({ certPem, keyPem, clock }: Authority): Promise<Authority> {
  const { signAuthority } = await import("./signing.ts");
  const { commonName } = readCertificateSubject(certPem);
  const now = clock.now();
  const endMs = now + AUTHORITY_VALID_DAYS * MS_PER_DAY;
  return { ...(await signAuthority({ commonName, endMs, keyPem }, now)), clock };
}

/** Undefined if certificate and key are a valid authority. */
function findProblem({ certPem, keyPem }: IssuedCertificate): string | undefined {
  const certificate = new X509Certificate(certPem);
  if (!certificate.ca) return "it is not the certificate of an authority";
  return certificate.checkPrivateKey(createPrivateKey(keyPem))
    ? undefined
    : "the key does not belong to the certificate";
}

/** @throws AppError with PKI_PEM_INVALID if certificate or key cannot be read, or do not match */
export function loadAuthority(pem: IssuedCertificate, clock: Pick<Clock, "now">): Authority {
  const problem = "certificate authority";
  let reason: string | undefined;
  try {
    reason = findProblem(pem);
  } catch (error) {
    throw new AppError(
      "PKI_PEM_INVALID",
      { what: problem, reason: messageOf(error) },
      { cause: error },
    );
  }
  if (reason !== undefined) throw new AppError("PKI_PEM_INVALID", { what: problem, reason });
  return { ...pem, clock };
}
