// SPDX-License-Identifier: Apache-2.0
// A certificate authority of one's own: made once, kept as PEM.
import { X509Certificate, createPrivateKey } from "node:crypto";
import { AppError, messageOf } from "@patchbay/core/errors";
import type { Clock } from "@patchbay/core/ports";
import type { Authority, IssuedCertificate } from "./certificate-request.ts";
import { subjectOfCertificate } from "./certificate.ts";
import { MS_PER_DAY } from "./encoding.ts";

/** Ten years: an authority outlives the certificates that it signs. */
const AUTHORITY_VALID_DAYS = 3650;

/** Makes a self-signed authority, valid for ten years. */
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
 * The same authority with another ten years: name and key stay, so that whoever trusts it as it was trusts what it signs
 * from now on, and the reverse.
 * @throws AppError with PKI_PEM_INVALID when its certificate cannot be read.
 */
export async function renewAuthority({ certPem, keyPem, clock }: Authority): Promise<Authority> {
  const { signAuthority } = await import("./signing.ts");
  const { commonName } = subjectOfCertificate(certPem);
  const now = clock.now();
  const endMs = now + AUTHORITY_VALID_DAYS * MS_PER_DAY;
  return { ...(await signAuthority({ commonName, endMs, keyPem }, now)), clock };
}

/** Why certificate and key are no authority; undefined when they are one. */
function problemOf({ certPem, keyPem }: IssuedCertificate): string | undefined {
  const certificate = new X509Certificate(certPem);
  if (!certificate.ca) return "it is not the certificate of an authority";
  return certificate.checkPrivateKey(createPrivateKey(keyPem))
    ? undefined
    : "the key does not belong to the certificate";
}

/**
 * Loads an authority that `createAuthority` made and a file kept.
 * @throws AppError with PKI_PEM_INVALID when certificate or key cannot be read, or do not belong together.
 */
export function loadAuthority(pem: IssuedCertificate, clock: Pick<Clock, "now">): Authority {
  const what = "certificate authority";
  let reason: string | undefined;
  try {
    reason = problemOf(pem);
  } catch (error) {
    throw new AppError("PKI_PEM_INVALID", { what, reason: messageOf(error) }, { cause: error });
  }
  if (reason !== undefined) throw new AppError("PKI_PEM_INVALID", { what, reason });
  return { ...pem, clock };
}
