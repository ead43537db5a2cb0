// SPDX-License-Identifier: Apache-2.0
// Who is behind a connection? Whom a certificate names that is there, that is signed by the right authority.
import { X509Certificate } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { TLSSocket } from "node:tls";
import { splitBundle } from "@patchbay/pki";
import type { Source, Trust } from "./source.ts";

/** The certificate that the client has shown, and those that sign it, nearest first. */
function chainOf(socket: TLSSocket): readonly X509Certificate[] {
  const chain: X509Certificate[] = [];
  let next = socket.getPeerX509Certificate();
  while (next !== undefined && !chain.some(({ raw }) => next?.raw.equals(raw) === true)) {
    chain.push(next);
    next = next.issuerCertificate;
  }
  return chain;
}

/** The one common name; undefined where there is none, or more than one. */
function commonNameOf(certificate: X509Certificate): string | undefined {
  // Node gives the subject as attribute names to text, or to a list of texts.
  const subject: Readonly<Record<string, unknown>> = { ...certificate.toLegacyObject().subject };
  return typeof subject["CN"] === "string" ? subject["CN"] : undefined;
}

/** An authority whose clients are trusted with something. Trusts nobody before `read`. */
export class ClientAuthority {
  readonly #source: Source<Trust>;
  #names: readonly string[] = [];
  #certificates: readonly X509Certificate[] = [];
  /** What was found of connections by what is trusted now: a client shows its certificate once, when it connects. */
  #judged = new WeakMap<TLSSocket, boolean>();

  constructor(source: Source<Trust>) {
    this.#source = source;
  }

  /**
   * Reads whom to trust, again after a change; gives the authority's text, for TLS to check certificates by.
   * @throws AppError with what its source throws; Error when that is no certificate
   */
  async read(): Promise<string> {
    const { caPem, names } = await this.#source.read();
    this.#certificates = splitBundle(caPem).map((pem) => new X509Certificate(pem));
    this.#names = names;
    this.#judged = new WeakMap();
    return caPem;
  }

  /** Calls `changed` whenever it is to be read again, until the signal is aborted. */
  follow(changed: () => void, signal: AbortSignal): void {
    this.#source.follow(changed, signal);
  }

  /**
   * Whether the client of this connection is one that is meant. `authorized` alone says too little: Node.js 20 says it
   * of a resumed TLS 1.3 session in which nobody ever showed a certificate, and every version says it of the clients
   * of each authority that the server knows.
   */
  vouchesFor({ socket }: Pick<IncomingMessage, "socket">): boolean {
    if (!(socket instanceof TLSSocket) || !socket.authorized) return false;
    const vouched = this.#judged.get(socket) ?? this.#judge(socket);
    this.#judged.set(socket, vouched);
    return vouched;
  }

  #judge(socket: TLSSocket): boolean {
    const chain = chainOf(socket);
    const [client] = chain;
    if (client === undefined || !this.#isMeant(client)) return false;
    return chain.some((certificate) => this.#hasSigned(certificate));
  }

  #isMeant(client: X509Certificate): boolean {
    const name = commonNameOf(client);
    return name !== undefined && (this.#names.length === 0 || this.#names.includes(name));
  }

  #hasSigned(certificate: X509Certificate): boolean {
    return this.#certificates.some(
      (ca) => certificate.checkIssued(ca) && certificate.verify(ca.publicKey),
    );
  }
}
