// SPDX-License-Identifier: Apache-2.0
import { HANDLER_CLIENT_NAME } from "@patchbay/core/guest";
import { certificateInFiles, trustInFile } from "@patchbay/daemon";
import { readCertificateEnd, issueCertificate } from "@patchbay/pki";
import type { Secret } from "@patchbay/api/kubernetes";
import type { Cache, Files } from "@patchbay/core/interfaces";
import type { Clock } from "@patchbay/base";
import { readAuthorityFrom } from "../certificates/secret.ts";

/** virt-api's client certificate for its calls to virt-handlers, and the CA of virt-handlers' server certificates, in PEM. */
export interface HandlerCredentials {
  readonly certPem: string;
  readonly keyPem: string;
  readonly caPem: string;
}

export type ReadCredentials = () => Promise<HandlerCredentials>;

/** Paths of certificate files, which another program manages. */
export interface CredentialFiles {
  readonly certFile: string;
  readonly keyFile: string;
  readonly caFile: string;
}

/** Returns a function that reads the files at each call. @throws AppError with OS_FILE_FAILED from the returned function */
export function createFileCredentials(files: Files, paths: CredentialFiles): ReadCredentials {
  const certificate = certificateInFiles(files, paths);
  const authority = trustInFile(files, { caFile: paths.caFile, names: [] });
  return async () => ({
    ...(await certificate.read()),
    caPem: (await authority.read()).caPem,
  });
}

const CERTIFICATE_VALID_DAYS = 2;
const RENEW_BEFORE_MS = 24 * 3_600_000;

/** Returns a function that issues and caches certificates. The function throws AppError with KUBE_NOT_FOUND if no CA exists. */
export function createIssuedCredentials(
  secrets: Cache<Secret>,
  clock: Pick<Clock, "now">,
): ReadCredentials {
  let cached: HandlerCredentials | undefined;
  const read = readAuthorityFrom(secrets, clock);
  return async () => {
    const { authority, bundlePem: caPem } = await read();
    const isValid =
      cached?.caPem === caPem && readCertificateEnd(cached.certPem) - clock.now() > RENEW_BEFORE_MS;
    if (cached !== undefined && isValid) return cached;
    const newCertificate = await issueCertificate(authority, {
      commonName: HANDLER_CLIENT_NAME,
      organizations: [],
      usages: ["client"],
      dnsNames: [],
      ipAddresses: [],
      validDays: CERTIFICATE_VALID_DAYS,
    });
    cached = { ...newCertificate, caPem };
    return cached;
  };
}
