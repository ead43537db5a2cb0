// SPDX-License-Identifier: Apache-2.0
// What virt-api shows to the virt-handlers, and by whom theirs must be signed.
import { HANDLER_CLIENT_NAME } from "@patchbay/core";
import { certificateInFiles, trustInFile } from "@patchbay/daemon";
import { endOfCertificate, issueCertificate } from "@patchbay/pki";
import type { Secret } from "@patchbay/api";
import type { Cache, Clock, Files } from "@patchbay/core/ports";
import { authorityInSecret } from "../certificates/secret.ts";

/** All PEM. The key is a secret. */
export interface HandlerCredentials {
  readonly certPem: string;
  readonly keyPem: string;
  readonly caPem: string;
}

/** Gives those that are good now. */
export type ReadCredentials = () => Promise<HandlerCredentials>;

/** Where they are, where somebody else keeps them. */
export interface CredentialFiles {
  readonly certFile: string;
  readonly keyFile: string;
  readonly caFile: string;
}

/** @throws AppError with OS_FILE_FAILED, by what it gives */
export function credentialsInFiles(files: Files, paths: CredentialFiles): ReadCredentials {
  const certificate = certificateInFiles(files, paths);
  const authority = trustInFile(files, { caFile: paths.caFile, names: [] });
  return async () => ({
    ...(await certificate.read()),
    caPem: (await authority.read()).caPem,
  });
}

/** A certificate that nobody else keeps need not be good for long. */
const VALID_DAYS = 2;
const RENEW_BEFORE_MS = 24 * 3_600_000;

/**
 * Made by each virt-api for itself, with the authority that all of them have in the Secret; never stored.
 * @throws AppError with KUBE_NOT_FOUND while there is no authority, by what it gives
 */
export function credentialsOfOwnAuthority(
  secrets: Cache<Secret>,
  clock: Pick<Clock, "now">,
): ReadCredentials {
  let made: HandlerCredentials | undefined;
  const read = authorityInSecret(secrets, clock);
  return async () => {
    const { authority, bundlePem: caPem } = await read();
    const isGood =
      made?.caPem === caPem && endOfCertificate(made.certPem) - clock.now() > RENEW_BEFORE_MS;
    if (made !== undefined && isGood) return made;
    const issued = await issueCertificate(authority, {
      commonName: HANDLER_CLIENT_NAME,
      organizations: [],
      usages: ["client"],
      dnsNames: [],
      ipAddresses: [],
      validDays: VALID_DAYS,
    });
    made = { ...issued, caPem };
    return made;
  };
}
