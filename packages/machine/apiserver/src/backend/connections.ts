// SPDX-License-Identifier: Apache-2.0
// TLS connections to backends (aggregated APIs, webhooks, kubelets), and how their failures read.
import { Agent, type RequestOptions } from "node:https";
import { isIP } from "node:net";
import { messageOf } from "@patchbay/core/errors";
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

/** A server to connect to, and whom it must prove to be. */
export interface Peer {
  /** Addresses that all lead to it, one at least. */
  readonly at: readonly HostPort[];
  /** Name that its certificate must have. */
  readonly serverName: string;
  /** Authority of its certificate; empty: the machine's authorities. */
  readonly caPem: string;
  /** Whether its certificate is not looked at. */
  readonly insecure?: boolean;
}

/** What this server shows to peers. The key is a secret. */
interface ClientCertificate {
  readonly certPem: string;
  readonly keyPem: string;
}

/** A base64 `caBundle` as PEM. */
export function toPem(caBundle: string): string {
  return Buffer.from(caBundle, "base64").toString("utf8");
}

/** An address is no server name: TLS knows names only, and the certificate is checked against the host. */
function nameOf(serverName: string): { readonly servername?: string } {
  return isIP(serverName) === 0 ? { servername: serverName } : {};
}

/** Connections that are kept open, one pool for each address of a peer. */
export class Connections {
  readonly #agents = new Map<string, Agent>();
  readonly #certificate: ClientCertificate | undefined;

  constructor(certificate?: ClientCertificate) {
    this.#certificate = certificate;
  }

  /** What a request to one address of `peer` needs. */
  optionsFor(peer: Peer, at: HostPort): RequestOptions {
    return {
      host: at.host,
      port: at.port,
      agent: this.#agentFor(peer, at),
      ...nameOf(peer.serverName),
    };
  }

  close(): void {
    for (const agent of this.#agents.values()) {
      agent.destroy();
    }
    this.#agents.clear();
  }

  #agentFor(peer: Peer, at: HostPort): Agent {
    const key = printJson([at.host, at.port, peer.serverName, peer.caPem, peer.insecure]);
    const known = this.#agents.get(key);
    if (known !== undefined) {
      return known;
    }
    const agent = new Agent({
      keepAlive: true,
      ...nameOf(peer.serverName),
      rejectUnauthorized: peer.insecure !== true,
      ...(peer.caPem === "" ? {} : { ca: peer.caPem }),
      ...(this.#certificate === undefined
        ? {}
        : { cert: this.#certificate.certPem, key: this.#certificate.keyPem }),
    });
    this.#agents.set(key, agent);
    return agent;
  }
}
