// SPDX-License-Identifier: Apache-2.0
// One certificate in files: is it still right, and what is made where it is not?
import { join } from "node:path";
import {
  endOfCertificate,
  issueCertificate,
  namesAddress,
  subjectOfCertificate,
  type Authority,
  type CertificateRequest,
  type IssuedCertificate,
} from "@patchbay/pki";
import type { Clock, Files } from "@patchbay/core/ports";
import type { Paths } from "./paths.ts";

/** Of files that hold a key. */
export const KEY_MODE = 0o600;
/** How long a certificate holds. */
export const VALID_DAYS = 365;
/** A certificate that ends sooner is made anew; the supervisor looks once a day. */
export const RENEW_BEFORE_MS = 60 * 24 * 3_600_000;

/** What the certificates need. */
export interface CertificateDeps {
  readonly files: Files;
  readonly clock: Clock;
  readonly paths: Paths;
}

type Request = Pick<CertificateRequest, "commonName" | "usages"> &
  Partial<Pick<CertificateRequest, "organizations" | "dnsNames" | "ipAddresses">>;

/** An older version, or another name of the node, may have named somebody else. */
function isStillRight(certPem: string, clock: Clock, wanted: Request): boolean {
  const { commonName, organizations } = subjectOfCertificate(certPem);
  const groups = new Set(wanted.organizations);
  return (
    endOfCertificate(certPem) - clock.now() > RENEW_BEFORE_MS &&
    commonName === wanted.commonName &&
    organizations.length === groups.size &&
    organizations.every((group) => groups.has(group)) &&
    (wanted.ipAddresses ?? []).every((ip) => namesAddress(certPem, ip))
  );
}

/** One certificate. */
interface Wanted {
  /** Name of its files. */
  readonly name: string;
  /** Where they are; absent: with all the others. */
  readonly directory?: string;
  readonly request: Request;
}

/** Gives a certificate that is there, and makes it where it is missing, ends soon or says something else. */
export async function keepCertificate(
  deps: CertificateDeps,
  authority: Authority,
  wanted: Wanted,
): Promise<IssuedCertificate> {
  const { files, clock, paths } = deps;
  const directory = wanted.directory ?? paths.pki;
  const certFile = join(directory, `${wanted.name}.crt`);
  const keyFile = join(directory, `${wanted.name}.key`);
  const certPem = await files.readText(certFile);
  const keyPem = await files.readText(keyFile);
  const isKept = certPem !== undefined && keyPem !== undefined;
  if (isKept && isStillRight(certPem, clock, wanted.request)) return { certPem, keyPem };
  const isServer = wanted.request.usages.includes("server");
  const issued = await issueCertificate(authority, {
    organizations: [],
    dnsNames: [],
    ipAddresses: isServer ? ["127.0.0.1"] : [],
    validDays: VALID_DAYS,
    ...wanted.request,
  });
  await files.writeAtomic(keyFile, issued.keyPem, KEY_MODE);
  await files.writeAtomic(certFile, issued.certPem);
  return issued;
}
