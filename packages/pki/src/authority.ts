// SPDX-License-Identifier: Apache-2.0
// Who signs: a certificate authority, made new or loaded from PEM.
import "reflect-metadata";
import { webcrypto } from "node:crypto";
import {
  BasicConstraintsExtension,
  KeyUsageFlags,
  KeyUsagesExtension,
  PemConverter,
  SubjectKeyIdentifierExtension,
  X509Certificate,
  X509CertificateGenerator,
  cryptoProvider,
} from "@peculiar/x509";
import { AppError, messageOf } from "@patchbay/core/errors";
import type { Clock } from "@patchbay/ports";
import { dateOf, pemOfKey, randomSerial, MS_PER_DAY } from "./encoding.ts";

cryptoProvider.set(webcrypto);

/** ECDSA on P-256 with SHA-256: what every client of TLS 1.2 and 1.3 takes. */
export const KEY_ALGORITHM = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" } as const;

/** Ten years: an authority outlives the certificates that it signs. */
const AUTHORITY_VALID_DAYS = 3650;
/** Clocks of one installation may differ by this much. */
const CLOCK_SKEW_MS = 300_000;

/** A certificate authority that can sign. `keyPem` is a secret. */
export interface Authority {
  readonly certPem: string;
  /** PKCS #8. */
  readonly keyPem: string;
  readonly certificate: X509Certificate;
  readonly signingKey: webcrypto.CryptoKey;
  readonly clock: Pick<Clock, "now">;
}

/** Makes a self-signed authority, valid for ten years. */
export async function createAuthority(
  commonName: string,
  clock: Pick<Clock, "now">,
): Promise<Authority> {
  const keys = await webcrypto.subtle.generateKey(KEY_ALGORITHM, true, ["sign", "verify"]);
  const certificate = await X509CertificateGenerator.createSelfSigned({
    serialNumber: randomSerial(),
    name: [{ CN: [commonName] }],
    notBefore: dateOf(clock.now() - CLOCK_SKEW_MS),
    notAfter: dateOf(clock.now() + AUTHORITY_VALID_DAYS * MS_PER_DAY),
    signingAlgorithm: KEY_ALGORITHM,
    keys,
    extensions: [
      new BasicConstraintsExtension(true, undefined, true),
      new KeyUsagesExtension(
        KeyUsageFlags.keyCertSign | KeyUsageFlags.cRLSign | KeyUsageFlags.digitalSignature,
        true,
      ),
      await SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  });
  return {
    certPem: `${certificate.toString("pem")}\n`,
    keyPem: await pemOfKey(keys.privateKey),
    certificate,
    signingKey: keys.privateKey,
    clock,
  };
}

/**
 * Loads an authority that `createAuthority` made and a file kept.
 * @throws AppError with PKI_PEM_INVALID when certificate or key cannot be read.
 */
export async function loadAuthority(
  pem: { readonly certPem: string; readonly keyPem: string },
  clock: Pick<Clock, "now">,
): Promise<Authority> {
  try {
    const der = PemConverter.decodeFirst(pem.keyPem);
    const signingKey = await webcrypto.subtle.importKey("pkcs8", der, KEY_ALGORITHM, true, [
      "sign",
    ]);
    return { ...pem, certificate: new X509Certificate(pem.certPem), signingKey, clock };
  } catch (error) {
    throw new AppError(
      "PKI_PEM_INVALID",
      { what: "certificate authority", reason: messageOf(error) },
      { cause: error },
    );
  }
}
