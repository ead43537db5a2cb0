// SPDX-License-Identifier: Apache-2.0
// What an authority signs: certificates of servers and clients.
import { X509Certificate } from "node:crypto";
import { AppError, messageOf } from "@patchbay/core/errors";
import type { Authority } from "./authority.ts";
import type { CertificateRequest, IssuedCertificate } from "./certificate-request.ts";

/** Makes a key and a certificate for it, signed by `authority`. */
export async function issueCertificate(
  authority: Authority,
  request: CertificateRequest,
): Promise<IssuedCertificate> {
  const { signCertificate } = await import("./signing.ts");
  return signCertificate(authority, request, authority.clock.now());
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
