// SPDX-License-Identifier: Apache-2.0
// What a certificate is to say, and what comes of it.
import type { Clock } from "@patchbay/core/ports";

/** What a certificate is for. Source: RFC 5280 4.2.1.12. */
export type CertificateUsage = "server" | "client";

/** What to put into a certificate. */
export interface CertificateRequest {
  /** For a client: the user. */
  readonly commonName: string;
  /** For a client: the groups. */
  readonly organizations: readonly string[];
  readonly dnsNames: readonly string[];
  readonly ipAddresses: readonly string[];
  readonly usages: readonly CertificateUsage[];
  /** Cut to the authority's own end. */
  readonly validDays: number;
}

/** A certificate and its key. `keyPem` is a secret. */
export interface IssuedCertificate {
  readonly certPem: string;
  /** PKCS #8. */
  readonly keyPem: string;
}

/** A certificate authority that can sign. `keyPem` is a secret. */
export interface Authority extends IssuedCertificate {
  readonly clock: Pick<Clock, "now">;
}
