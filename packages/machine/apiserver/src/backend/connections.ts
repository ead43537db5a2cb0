// SPDX-License-Identifier: Apache-2.0
// TLS connections to servers behind this one: aggregated APIs and webhooks.
import { Agent, type RequestOptions } from "node:https";
import { isIP } from "node:net";
import { printJson } from "../objects/json.ts";
import type { HostPort } from "./service-address.ts";

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
export interface ClientCertificate {
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
