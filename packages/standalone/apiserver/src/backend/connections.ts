// SPDX-License-Identifier: Apache-2.0
// TLS connections to backends (extension API servers, webhooks, kubelets), and messages for their failures.
import { Agent, type RequestOptions } from "node:https";
import { isIP } from "node:net";
import { messageOf } from "@patchbay/base";
import { printJson } from "../objects/json.ts";
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

/** Go's messages for failed system calls, by error code. */
const DIAL_ERRORS: Readonly<Record<string, string>> = {
  ECONNREFUSED: "connect: connection refused",
  EHOSTUNREACH: "connect: no route to host",
  ENETUNREACH: "connect: network is unreachable",
  ETIMEDOUT: "i/o timeout",
};

const CERTIFICATE_ERRORS: Readonly<Record<string, string>> = {
  CERT_HAS_EXPIRED: "certificate has expired or is not yet valid",
  CERT_NOT_YET_VALID: "certificate has expired or is not yet valid",
};

export function errorCode(error: unknown): string {
  const code: unknown = error instanceof Error && "code" in error ? error.code : undefined;
  return typeof code === "string" ? code : "";
}

export function printHostPort({ host, port }: HostPort): string {
  return `${host.includes(":") ? `[${host}]` : host}:${String(port)}`;
}

/** Describes the failure like Go's HTTP client. */
export function describeFailure(error: unknown, address: HostPort): string {
  const code = errorCode(error);
  const dialError = DIAL_ERRORS[code];
  if (dialError !== undefined) {
    return `dial tcp ${printHostPort(address)}: ${dialError}`;
  }
  if (code === "ENOTFOUND" || code === "EAI_AGAIN") {
    return `dial tcp: lookup ${address.host}: no such host`;
  }
  if (AUTHORITY_CODES.has(code)) {
    return UNKNOWN_AUTHORITY;
  }
  if (code === "ERR_TLS_CERT_ALTNAME_INVALID" || CERTIFICATE_ERRORS[code] !== undefined) {
    return `tls: failed to verify certificate: x509: ${CERTIFICATE_ERRORS[code] ?? messageOf(error)}`;
  }
  return code === "ECONNRESET" || code === "EPIPE" ? "EOF" : messageOf(error);
}

/** Returns whether the error means that no connection was established. The request can then safely be sent to another address. */
export function isConnectFailure(error: unknown): boolean {
  return DIAL_ERRORS[errorCode(error)] !== undefined;
}

export interface Peer {
  /** Interchangeable addresses of the peer. The list is not empty. */
  readonly addresses: readonly HostPort[];
  readonly serverName: string;
  /** CA of the peer's certificate, as PEM. If it is empty, the system's CAs are used. */
  readonly caPem: string;
  readonly isInsecure?: boolean;
}

interface ClientCertificate {
  readonly certPem: string;
  readonly keyPem: string;
}

export function toPem(caBundle: string): string {
  return Buffer.from(caBundle, "base64").toString("utf8");
}

/**
 * Returns option `servername`, or no option for an IP address, because SNI does not allow IP addresses. Without the option, Node.js
 * compares the certificate with `host`.
 */
function serverNameOption(serverName: string): { readonly servername?: string } {
  return isIP(serverName) === 0 ? { servername: serverName } : {};
}

/** Pools of keep-alive connections, one pool for each address of a peer. */
export class Connections {
  readonly #agents = new Map<string, Agent>();
  readonly #certificate: ClientCertificate | undefined;

  constructor(certificate?: ClientCertificate) {
    this.#certificate = certificate;
  }

  requestOptions(peer: Peer, address: HostPort): RequestOptions {
    return {
      host: address.host,
      port: address.port,
      agent: this.#agentFor(peer, address),
      ...serverNameOption(peer.serverName),
    };
  }

  close(): void {
    for (const agent of this.#agents.values()) {
      agent.destroy();
    }
    this.#agents.clear();
  }

  #agentFor(peer: Peer, address: HostPort): Agent {
    const key = printJson([
      address.host,
      address.port,
      peer.serverName,
      peer.caPem,
      peer.isInsecure,
    ]);
    const existingAgent = this.#agents.get(key);
    if (existingAgent !== undefined) {
      return existingAgent;
    }
    const agent = new Agent({
      keepAlive: true,
      ...serverNameOption(peer.serverName),
      rejectUnauthorized: peer.isInsecure !== true,
      ...(peer.caPem === "" ? {} : { ca: peer.caPem }),
      ...(this.#certificate === undefined
        ? {}
        : { cert: this.#certificate.certPem, key: this.#certificate.keyPem }),
    });
    this.#agents.set(key, agent);
    return agent;
  }
}
