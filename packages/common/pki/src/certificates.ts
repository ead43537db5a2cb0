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

/** Creates a PEM certificate for an existing P-256 key in PEM. */
export async function certifyKey(
  authority: Authority,
  publicKeyPem: string,
  request: CertificateRequest,
): Promise<string> {
  const { signKey } = await import("./signing.ts");
  return signKey(authority, publicKeyPem, { request, nowMs: authority.clock.now() });
}

function parseCertificate(certPem: string): X509Certificate {
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

/** Returns the end of the validity in milliseconds since 1970. @throws AppError with PKI_PEM_INVALID */
export function readCertificateEnd(certPem: string): number {
  return parseCertificate(certPem).validToDate.getTime();
}

/** Returns the start of the validity in milliseconds since 1970. @throws AppError with PKI_PEM_INVALID */
export function readCertificateStart(certPem: string): number {
  return parseCertificate(certPem).validFromDate.getTime();
}

function toTexts(value: unknown): readonly string[] {
  return [value].flat().filter((text): text is string => typeof text === "string");
}

/** @throws AppError with PKI_PEM_INVALID if the certificate cannot be parsed */
export function readCertificateSubject(
  certPem: string,
): Pick<CertificateRequest, "commonName" | "organizations"> {
  // Node.js returns an attribute as a string, or as a list of strings if the attribute occurs more than once.
  const subject: Readonly<Record<string, unknown>> = {
    ...parseCertificate(certPem).toLegacyObject().subject,
  };
  const [commonName = ""] = toTexts(subject["CN"]);
  return { commonName, organizations: toTexts(subject["O"]) };
}

const PEM_CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** Returns the certificates of a bundle in order, each with a trailing newline. Ignores other text. */
export function splitBundle(bundlePem: string): readonly string[] {
  return (bundlePem.match(PEM_CERTIFICATE) ?? []).map((pem) => `${pem}\n`);
}

/** @throws AppError with PKI_PEM_INVALID if a certificate cannot be parsed */
export function isIssuedFor(certPem: string, authorityPem: string, host: string): boolean {
  const [certificate, authority] = [parseCertificate(certPem), parseCertificate(authorityPem)];
  return (
    certificate.checkHost(host) !== undefined &&
    certificate.checkIssued(authority) &&
    certificate.verify(authority.publicKey)
  );
}

/** @throws AppError with PKI_PEM_INVALID if the certificate or the key cannot be parsed */
export function isMatchingKey(certPem: string, keyPem: string): boolean {
  try {
    return parseCertificate(certPem).checkPrivateKey(createPrivateKey(keyPem));
  } catch (error) {
    if (error instanceof AppError) throw error;
    const reason = messageOf(error);
    throw new AppError("PKI_PEM_INVALID", { what: "private key", reason }, { cause: error });
  }
}

/** Returns whether the certificate is valid for the IP address. @throws AppError with PKI_PEM_INVALID */
export function isIssuedForAddress(certPem: string, ip: string): boolean {
  return parseCertificate(certPem).checkIP(ip) !== undefined;
}

/** Validity of an authority in days. Certificates that it signs expire no later than the authority. */
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
 * Renews an authority for ten years. Clients that trust the old certificate also trust new signatures, because name and key are unchanged.
 * @throws AppError with PKI_PEM_INVALID if its certificate cannot be parsed
 */
export async function renewAuthority({ certPem, keyPem, clock }: Authority): Promise<Authority> {
  const { signAuthority } = await import("./signing.ts");
  const { commonName } = readCertificateSubject(certPem);
  const now = clock.now();
  const endMs = now + AUTHORITY_VALID_DAYS * MS_PER_DAY;
  return { ...(await signAuthority({ commonName, endMs, keyPem }, now)), clock };
}

function findProblem({ certPem, keyPem }: IssuedCertificate): string | undefined {
  const certificate = new X509Certificate(certPem);
  if (!certificate.ca) return "it is not the certificate of an authority";
  return certificate.checkPrivateKey(createPrivateKey(keyPem))
    ? undefined
    : "the key does not belong to the certificate";
}

/** @throws AppError with PKI_PEM_INVALID if certificate and key cannot be parsed, do not match, or do not belong to an authority */
export function loadAuthority(pem: IssuedCertificate, clock: Pick<Clock, "now">): Authority {
  const what = "certificate authority";
  let reason: string | undefined;
  try {
    reason = findProblem(pem);
  } catch (error) {
    throw new AppError("PKI_PEM_INVALID", { what, reason: messageOf(error) }, { cause: error });
  }
  if (reason !== undefined) throw new AppError("PKI_PEM_INVALID", { what, reason });
  return { ...pem, clock };
}
