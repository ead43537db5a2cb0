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

/**
 * When a certificate ends, in milliseconds since 1970; for renewal.
 * @throws AppError with PKI_PEM_INVALID when it cannot be read.
 */
export function endOfCertificate(certPem: string): number {
  try {
    return new X509Certificate(certPem).validToDate.getTime();
  } catch (error) {
    throw new AppError(
      "PKI_PEM_INVALID",
      { what: "certificate", reason: messageOf(error) },
      { cause: error },
    );
  }
}
