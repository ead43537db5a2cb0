// SPDX-License-Identifier: Apache-2.0
// What the Secret with virt-api's certificates holds, and what of it is good.
import { names, type Secret } from "@patchbay/api";
import {
  endOfCertificate,
  isIssuedFor,
  isKeyOf,
  splitBundle,
  type IssuedCertificate,
  loadAuthority,
  type Authority,
} from "@patchbay/pki";
import { HANDLER_SERVER_NAME, isAppError, AppError } from "@patchbay/core";
import type { KeyPair } from "@patchbay/daemon";
import type { Cache, Clock } from "@patchbay/core/ports";

/** Where the Secret is. */
export const SECRET_KEY = {
  namespace: names.SERVICES_NAMESPACE,
  name: names.CERTIFICATES_SECRET,
} as const;

/** Where what virt-handlers serve with is. */
export const HANDLERS_KEY = {
  namespace: names.SERVICES_NAMESPACE,
  name: names.HANDLER_CERTIFICATES_SECRET,
} as const;

/** The name by which the API server calls virt-api. Source: Kubernetes, a webhook's or APIService's service. */
export const SERVER_NAME = `${names.VIRT_API_SERVICE}.${names.SERVICES_NAMESPACE}.svc`;

/** What the members of the Secret are called. Source: Kubernetes kubernetes.io/tls; cert-manager for the authority. */
const MEMBERS = {
  bundlePem: "ca.crt",
  caKeyPem: "ca.key",
  certPem: "tls.crt",
  keyPem: "tls.key",
} as const;

/** The Secret's content, PEM; what is not there is empty. */
export type Contents = Readonly<Record<keyof typeof MEMBERS, string>>;

/** What is good of a Secret's content. */
export interface Kept {
  readonly contents: Contents;
  /** The authority that signs: the first of the bundle, whose key is there. */
  readonly authority?: IssuedCertificate & { readonly endMs: number };
  /** What is served with: of that authority, and for the Service's name. */
  readonly serving?: KeyPair & { readonly endMs: number };
}

/** Reads the members of a Secret; what is no base64 is what is left of it. */
export function contentsOf({ data }: Pick<Secret, "data">): Contents {
  const read = (member: string): string =>
    Buffer.from(data?.[member] ?? "", "base64").toString("utf8");
  return {
    bundlePem: read(MEMBERS.bundlePem),
    caKeyPem: read(MEMBERS.caKeyPem),
    certPem: read(MEMBERS.certPem),
    keyPem: read(MEMBERS.keyPem),
  };
}

/** The Secret's data; of what is not given there is no member. */
export function printContents(contents: Partial<Contents>): Readonly<Record<string, string>> {
  const members = (Object.keys(MEMBERS) as readonly (keyof Contents)[]).flatMap((name) => {
    const text = contents[name];
    return text === undefined ? [] : [[MEMBERS[name], Buffer.from(text).toString("base64")]];
  });
  return Object.fromEntries(members) as Readonly<Record<string, string>>;
}

/** What a person or another program has put there may be anything: it then counts as nothing. */
function unlessUnreadable<T>(read: () => T | undefined): T | undefined {
  try {
    return read();
  } catch (error) {
    if (isAppError(error, "PKI_PEM_INVALID")) return undefined;
    throw error;
  }
}

function authorityIn({ bundlePem, caKeyPem: keyPem }: Contents): Kept["authority"] {
  const [certPem] = splitBundle(bundlePem);
  if (certPem === undefined || !isKeyOf(certPem, keyPem)) return undefined;
  return { certPem, keyPem, endMs: endOfCertificate(certPem) };
}

function servingIn(
  { certPem, keyPem }: Contents,
  authorityPem: string,
  host: string,
): Kept["serving"] {
  const isGood = isIssuedFor(certPem, authorityPem, host) && isKeyOf(certPem, keyPem);
  return isGood ? { certPem, keyPem, endMs: endOfCertificate(certPem) } : undefined;
}

/** Reads the Secret. */
export function readKept(secret: Pick<Secret, "data">): Kept {
  const contents = contentsOf(secret);
  const authority = unlessUnreadable(() => authorityIn(contents));
  if (authority === undefined) return { contents };
  const serving = unlessUnreadable(() => servingIn(contents, authority.certPem, SERVER_NAME));
  return { contents, authority, ...(serving !== undefined && { serving }) };
}

/** When what virt-handlers serve with ends; undefined: it is not of that authority, or its clients are not known by all. */
export function endOfHandlers(
  secret: Pick<Secret, "data">,
  { authority, contents }: Kept,
): number | undefined {
  const given = contentsOf(secret);
  if (authority === undefined || given.bundlePem !== contents.bundlePem) return undefined;
  return unlessUnreadable(() => servingIn(given, authority.certPem, HANDLER_SERVER_NAME))?.endMs;
}

/** The authorities of a bundle that are good for something, the newest first. */
export function livingAuthorities(bundlePem: string, nowMs: number): readonly string[] {
  return splitBundle(bundlePem).filter(
    (pem) => (unlessUnreadable(() => endOfCertificate(pem)) ?? 0) > nowMs,
  );
}

/** Who signs, and all whose certificates are believed, PEM. */
interface OwnAuthority {
  readonly authority: Authority;
  readonly bundlePem: string;
}

/** Gives it as it is now; undefined: there is none, and will be none. */
export type ReadAuthority = () => Promise<OwnAuthority | undefined>;

/** @throws AppError with KUBE_NOT_FOUND while there is none, by what it gives */
export function authorityInSecret(
  secrets: Cache<Secret>,
  clock: Pick<Clock, "now">,
): () => Promise<OwnAuthority> {
  return async () => {
    await Promise.resolve();
    const { authority, contents } = readKept(secrets.find(SECRET_KEY) ?? {});
    if (authority !== undefined) {
      return { authority: loadAuthority(authority, clock), bundlePem: contents.bundlePem };
    }
    const object = `${SECRET_KEY.namespace}/${SECRET_KEY.name}`;
    throw new AppError("KUBE_NOT_FOUND", { resource: "the authority in secret", object });
  };
}
