// SPDX-License-Identifier: Apache-2.0
// Why could a server behind this one not be asked? In the words that people know from Kubernetes.
import { messageOf } from "@patchbay/core/errors";
import type { HostPort } from "./service-address.ts";

const UNKNOWN_AUTHORITY =
  "tls: failed to verify certificate: x509: certificate signed by unknown authority";

const AUTHORITY_CODES: ReadonlySet<string> = new Set([
  "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
  "UNABLE_TO_GET_ISSUER_CERT",
  "UNABLE_TO_GET_ISSUER_CERT_LOCALLY",
  "SELF_SIGNED_CERT_IN_CHAIN",
  "DEPTH_ZERO_SELF_SIGNED_CERT",
  "CERT_SIGNATURE_FAILURE",
  "CERT_UNTRUSTED",
]);

/** What a failed system call says behind the address. */
const DIAL: Readonly<Record<string, string>> = {
  ECONNREFUSED: "connect: connection refused",
  EHOSTUNREACH: "connect: no route to host",
  ENETUNREACH: "connect: network is unreachable",
  ETIMEDOUT: "i/o timeout",
};

const CERTIFICATE: Readonly<Record<string, string>> = {
  CERT_HAS_EXPIRED: "certificate has expired or is not yet valid",
  CERT_NOT_YET_VALID: "certificate has expired or is not yet valid",
};

/** The code of a failed system call or TLS check; empty where the error has none. */
export function codeOf(error: unknown): string {
  const code: unknown = error instanceof Error && "code" in error ? error.code : undefined;
  return typeof code === "string" ? code : "";
}

/** An address as URLs have it. */
export function printHostPort({ host, port }: HostPort): string {
  return `${host.includes(":") ? `[${host}]` : host}:${String(port)}`;
}

/** Says why a connection to `at` failed. */
export function describeFailure(error: unknown, at: HostPort): string {
  const code = codeOf(error);
  const dial = DIAL[code];
  if (dial !== undefined) {
    return `dial tcp ${printHostPort(at)}: ${dial}`;
  }
  if (code === "ENOTFOUND" || code === "EAI_AGAIN") {
    return `dial tcp: lookup ${at.host}: no such host`;
  }
  if (AUTHORITY_CODES.has(code)) {
    return UNKNOWN_AUTHORITY;
  }
  if (code === "ERR_TLS_CERT_ALTNAME_INVALID" || CERTIFICATE[code] !== undefined) {
    return `tls: failed to verify certificate: x509: ${CERTIFICATE[code] ?? messageOf(error)}`;
  }
  return code === "ECONNRESET" || code === "EPIPE" ? "EOF" : messageOf(error);
}

/** Whether nothing was sent yet: another address may be tried. */
export function isUnreached(error: unknown): boolean {
  return DIAL[codeOf(error)] !== undefined;
}
