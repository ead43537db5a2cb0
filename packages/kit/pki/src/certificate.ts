// SPDX-License-Identifier: Apache-2.0
// What an authority signs: certificates of servers and clients.
import { createPrivateKey, X509Certificate } from "node:crypto";
import { AppError, messageOf } from "@patchbay/core/errors";
import type { Authority, CertificateRequest, IssuedCertificate } from "./certificate-request.ts";

/** Makes a key and a certificate for it, signed by `authority`. */
export async function issueCertificate(
  authority: Authority,
  request: CertificateRequest,
): Promise<IssuedCertificate> {
  const { signCertificate } = await import("./signing.ts");
  return signCertificate(authority, request, authority.clock.now());
}

/** Makes a certificate for a key that somebody else has, PEM, signed by `authority`; `publicKeyPem` is on P-256. */
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

/**
 * When a certificate ends, in milliseconds since 1970; for renewal.
 * @throws AppError with PKI_PEM_INVALID when it cannot be read.
 */
export function endOfCertificate(certPem: string): number {
  return read(certPem).validToDate.getTime();
}

/**
 * Since when a certificate holds, in milliseconds since 1970.
 * @throws AppError with PKI_PEM_INVALID when it cannot be read.
 */
export function startOfCertificate(certPem: string): number {
  return read(certPem).validFromDate.getTime();
}

/** One attribute of a subject: a text, or a list where it is there more than once. */
function textsOf(value: unknown): readonly string[] {
  return [value].flat().filter((text): text is string => typeof text === "string");
}

/**
 * Whom a certificate names.
 * @throws AppError with PKI_PEM_INVALID when it cannot be read.
 */
export function subjectOfCertificate(
  certPem: string,
): Pick<CertificateRequest, "commonName" | "organizations"> {
  // Node gives the subject as attribute names to text, or to a list of texts.
  const subject: Readonly<Record<string, unknown>> = { ...read(certPem).toLegacyObject().subject };
  const [commonName = ""] = textsOf(subject["CN"]);
  return { commonName, organizations: textsOf(subject["O"]) };
}

/** A certificate in PEM, one of several in a text. */
const PEM_CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** The certificates of a bundle, in its order, each with a line's end; what is none is left out. */
export function splitBundle(bundlePem: string): readonly string[] {
  return (bundlePem.match(PEM_CERTIFICATE) ?? []).map((pem) => `${pem}\n`);
}

/**
 * Whether the certificate says that it is that host's, and was signed by that authority.
 * @throws AppError with PKI_PEM_INVALID when one of them cannot be read.
 */
export function isIssuedFor(certPem: string, authorityPem: string, host: string): boolean {
  const [certificate, authority] = [read(certPem), read(authorityPem)];
  return (
    certificate.checkHost(host) !== undefined &&
    certificate.checkIssued(authority) &&
    certificate.verify(authority.publicKey)
  );
}

/**
 * Whether that key is the certificate's.
 * @throws AppError with PKI_PEM_INVALID when one of them cannot be read.
 */
export function isKeyOf(certPem: string, keyPem: string): boolean {
  try {
    return read(certPem).checkPrivateKey(createPrivateKey(keyPem));
  } catch (error) {
    if (error instanceof AppError) throw error;
    const reason = messageOf(error);
    throw new AppError("PKI_PEM_INVALID", { what: "private key", reason }, { cause: error });
  }
}

/**
 * Whether the certificate says that it is also that address's.
 * @throws AppError with PKI_PEM_INVALID when it cannot be read.
 */
export function namesAddress(certPem: string, ip: string): boolean {
  return read(certPem).checkIP(ip) !== undefined;
}
