// SPDX-License-Identifier: Apache-2.0
import { names } from "@patchbay/api";
import type { Secret } from "@patchbay/api/kubernetes";
import {
  readCertificateEnd,
  isIssuedFor,
  isMatchingKey,
  splitBundle,
  type IssuedCertificate,
  loadAuthority,
  type Authority,
} from "@patchbay/pki";
import { HANDLER_SERVER_NAME } from "@patchbay/core/guest";
import { isAppError, AppError, type Clock } from "@patchbay/base";
import type { KeyPair } from "@patchbay/daemon";
import type { Cache } from "@patchbay/core/interfaces";

export const SECRET_KEY = {
  namespace: names.SERVICES_NAMESPACE,
  name: names.CERTIFICATES_SECRET,
} as const;

export const HANDLERS_KEY = {
  namespace: names.SERVICES_NAMESPACE,
  name: names.HANDLER_CERTIFICATES_SECRET,
} as const;

/** Host name with which the API server connects to virt-api. Source: Kubernetes, service of a webhook or APIService. */
export const SERVER_NAME = `${names.VIRT_API_SERVICE}.${names.SERVICES_NAMESPACE}.svc`;

/** Keys in the Secret's data. Source: Kubernetes kubernetes.io/tls; cert-manager for the CA. */
const SECRET_KEYS = {
  bundlePem: "ca.crt",
  caKeyPem: "ca.key",
  certPem: "tls.crt",
  keyPem: "tls.key",
} as const;

/** Contents of a Secret in PEM. Missing contents are empty strings. */
export type Contents = Readonly<Record<keyof typeof SECRET_KEYS, string>>;

export interface ValidCertificates {
  readonly contents: Contents;
  /** CA that signs new certificates: the bundle's first CA. Unset if that CA is missing or invalid, or has another private key. */
  readonly authority?: IssuedCertificate & { readonly endMs: number };
  readonly serving?: KeyPair & { readonly endMs: number };
}

export function readContents({ data }: Pick<Secret, "data">): Contents {
  const read = (member: string): string =>
    Buffer.from(data?.[member] ?? "", "base64").toString("utf8");
  return {
    bundlePem: read(SECRET_KEYS.bundlePem),
    caKeyPem: read(SECRET_KEYS.caKeyPem),
    certPem: read(SECRET_KEYS.certPem),
    keyPem: read(SECRET_KEYS.keyPem),
  };
}

export function printContents(contents: Partial<Contents>): Readonly<Record<string, string>> {
  const members = (Object.keys(SECRET_KEYS) as readonly (keyof Contents)[]).flatMap((name) => {
    const text = contents[name];
    return text === undefined ? [] : [[SECRET_KEYS[name], Buffer.from(text).toString("base64")]];
  });
  return Object.fromEntries(members) as Readonly<Record<string, string>>;
}

/** Returns undefined for malformed PEM, because another program may have written the Secret. */
function ignoreInvalidPem<T>(read: () => T | undefined): T | undefined {
  try {
    return read();
  } catch (error) {
    if (isAppError(error, "PKI_PEM_INVALID")) return undefined;
    throw error;
  }
}

function findAuthority({ bundlePem, caKeyPem: keyPem }: Contents): ValidCertificates["authority"] {
  const [certPem] = splitBundle(bundlePem);
  if (certPem === undefined || !isMatchingKey(certPem, keyPem)) return undefined;
  return { certPem, keyPem, endMs: readCertificateEnd(certPem) };
}

function findServing(
  { certPem, keyPem }: Contents,
  authorityPem: string,
  host: string,
): ValidCertificates["serving"] {
  const isValid = isIssuedFor(certPem, authorityPem, host) && isMatchingKey(certPem, keyPem);
  return isValid ? { certPem, keyPem, endMs: readCertificateEnd(certPem) } : undefined;
}

export function readCertificates(secret: Pick<Secret, "data">): ValidCertificates {
  const contents = readContents(secret);
  const authority = ignoreInvalidPem(() => findAuthority(contents));
  if (authority === undefined) return { contents };
  const serving = ignoreInvalidPem(() => findServing(contents, authority.certPem, SERVER_NAME));
  return { contents, authority, ...(serving !== undefined && { serving }) };
}

/** Returns when virt-handlers' certificate expires. Undefined if it or its CA is invalid, or the Secret's CA bundle is outdated. */
export function findHandlersEnd(
  secret: Pick<Secret, "data">,
  { authority, contents }: ValidCertificates,
): number | undefined {
  const handlerContents = readContents(secret);
  if (authority === undefined || handlerContents.bundlePem !== contents.bundlePem) return undefined;
  return ignoreInvalidPem(() =>
    findServing(handlerContents, authority.certPem, HANDLER_SERVER_NAME),
  )?.endMs;
}

/** Lists the CAs of a bundle that have not expired, newest first. */
export function listValidAuthorities(bundlePem: string, nowMs: number): readonly string[] {
  return splitBundle(bundlePem).filter(
    (pem) => (ignoreInvalidPem(() => readCertificateEnd(pem)) ?? 0) > nowMs,
  );
}

interface OwnAuthority {
  readonly authority: Authority;
  readonly bundlePem: string;
}

/** Reads the CA. Returns undefined if virt-api does not manage the certificates. */
export type ReadAuthority = () => Promise<OwnAuthority | undefined>;

/** Returns a function that reads the CA. @throws AppError with KUBE_NOT_FOUND from the returned function if no CA exists */
export function readAuthorityFrom(
  secrets: Cache<Secret>,
  clock: Pick<Clock, "now">,
): () => Promise<OwnAuthority> {
  return async () => {
    await Promise.resolve();
    const { authority, contents } = readCertificates(secrets.find(SECRET_KEY) ?? {});
    if (authority !== undefined) {
      return { authority: loadAuthority(authority, clock), bundlePem: contents.bundlePem };
    }
    const object = `${SECRET_KEY.namespace}/${SECRET_KEY.name}`;
    throw new AppError("KUBE_NOT_FOUND", { resource: "the authority in secret", object });
  };
}
