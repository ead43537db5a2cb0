// SPDX-License-Identifier: Apache-2.0
// Signs certificates. This module is loaded on demand, because its library is large.
import "reflect-metadata";
import { createPrivateKey, createPublicKey, webcrypto } from "node:crypto";
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
  cryptoProvider,
} from "@peculiar/x509";
import {
  type CertificateRequest,
  toDate,
  type IssuedCertificate,
  MS_PER_DAY,
  printKey,
  randomSerial,
} from "./encoding.ts";

cryptoProvider.set(webcrypto);

/** Algorithm that every client of TLS 1.2 and 1.3 supports. */
const KEY_ALGORITHM = { name: "ECDSA", namedCurve: "P-256", hash: "SHA-256" } as const;

/** Tolerated difference between the clocks of an installation's machines, in milliseconds. */
const CLOCK_SKEW_MS = 300_000;

function generateKeys(): Promise<webcrypto.CryptoKeyPair> {
  return webcrypto.subtle.generateKey(KEY_ALGORITHM, true, ["sign", "verify"]);
}

function printCertificate(
  certificate: X509Certificate,
  keys: webcrypto.CryptoKeyPair,
): IssuedCertificate {
  return { certPem: `${certificate.toString("pem")}\n`, keyPem: printKey(keys.privateKey) };
}

/** Authority to create. If it has the name and key of an existing authority, clients that trust one of the two also trust the other. */
export interface AuthorityRequest {
  readonly commonName: string;
  /** Expiration time, in milliseconds since 1970. */
  readonly endMs: number;
  readonly keyPem?: string;
}

async function importKeys(keyPem: string): Promise<webcrypto.CryptoKeyPair> {
  const der = createPublicKey(keyPem).export({ type: "spki", format: "der" });
  const publicKey = await webcrypto.subtle.importKey("spki", der, KEY_ALGORITHM, true, ["verify"]);
  return { publicKey, privateKey: await importKey(keyPem) };
}

export async function signAuthority(
  { commonName, endMs, keyPem }: AuthorityRequest,
  nowMs: number,
): Promise<IssuedCertificate> {
  const keys = keyPem === undefined ? await generateKeys() : await importKeys(keyPem);
  const certificate = await X509CertificateGenerator.createSelfSigned({
    serialNumber: randomSerial(),
    name: [{ CN: [commonName] }],
    notBefore: toDate(nowMs - CLOCK_SKEW_MS),
    notAfter: toDate(endMs),
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
  return printCertificate(certificate, keys);
}

async function buildExtensions(
  issuer: X509Certificate,
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
    await AuthorityKeyIdentifierExtension.create(issuer),
  ];
}

function importKey(keyPem: string): Promise<webcrypto.CryptoKey> {
  const der = createPrivateKey(keyPem).export({ type: "pkcs8", format: "der" });
  return webcrypto.subtle.importKey("pkcs8", der, KEY_ALGORITHM, true, ["sign"]);
}

interface Signing {
  readonly request: CertificateRequest;
  /** Current time, in milliseconds since 1970. */
  readonly nowMs: number;
}

/** Signs a certificate, which expires no later than the issuer's certificate. */
async function sign(
  issuer: IssuedCertificate,
  publicKey: webcrypto.CryptoKey,
  { request, nowMs }: Signing,
): Promise<X509Certificate> {
  const authority = new X509Certificate(issuer.certPem);
  const end = Math.min(nowMs + request.validDays * MS_PER_DAY, authority.notAfter.getTime());
  const organizations = request.organizations.map((organization) => ({ O: [organization] }));
  return X509CertificateGenerator.create({
    serialNumber: randomSerial(),
    subject: [...organizations, { CN: [request.commonName] }],
    issuer: authority.subjectName,
    notBefore: toDate(nowMs - CLOCK_SKEW_MS),
    notAfter: toDate(end),
    signingAlgorithm: KEY_ALGORITHM,
    publicKey,
    signingKey: await importKey(issuer.keyPem),
    extensions: await buildExtensions(authority, request, publicKey),
  });
}

export async function signCertificate(
  issuer: IssuedCertificate,
  request: CertificateRequest,
  nowMs: number,
): Promise<IssuedCertificate> {
  const keys = await generateKeys();
  return printCertificate(await sign(issuer, keys.publicKey, { request, nowMs }), keys);
}

export async function signKey(
  issuer: IssuedCertificate,
  publicKeyPem: string,
  signing: Signing,
): Promise<string> {
  const der = createPublicKey(publicKeyPem).export({ type: "spki", format: "der" });
  const key = await webcrypto.subtle.importKey("spki", der, KEY_ALGORITHM, true, ["verify"]);
  return `${(await sign(issuer, key, signing)).toString("pem")}\n`;
}
