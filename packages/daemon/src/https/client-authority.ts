// SPDX-License-Identifier: Apache-2.0
// Who is behind a connection? Whom a certificate names that is there, that is signed by the right authority.
import { X509Certificate } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { TLSSocket } from "node:tls";
import { AppError } from "@patchbay/core";
import type { Files } from "@patchbay/ports";

const PEM_CERTIFICATES = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** An authority and those of its clients that are meant: it may sign for others too. */
export interface ClientAuthoritySettings {
  /** PEM, one certificate or more. */
  readonly caFile: string;
  /** Common names of the clients that are meant; none: every client of this authority. */
  readonly names: readonly string[];
}

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
  readonly #settings: ClientAuthoritySettings;
  #certificates: readonly X509Certificate[] = [];

  constructor(settings: ClientAuthoritySettings) {
    this.#settings = settings;
  }

  /**
   * Reads the file, again after a change; gives its text, for TLS to check certificates by.
   * @throws AppError with OS_FILE_FAILED when it is not there; Error when it holds something else
   */
  async read(files: Files): Promise<string> {
    const { caFile: path } = this.#settings;
    const text = await files.readText(path);
    if (text === undefined) {
      throw new AppError("OS_FILE_FAILED", { call: "open", path, reason: "no such file" });
    }
    this.#certificates = (text.match(PEM_CERTIFICATES) ?? []).map(
      (pem) => new X509Certificate(pem),
    );
    return text;
  }

  /**
   * Whether the client of this connection is one that is meant. `authorized` alone says too little: Node.js 20 says it
   * of a resumed TLS 1.3 session in which nobody ever showed a certificate, and every version says it of the clients
   * of each authority that the server knows.
   */
  vouchesFor({ socket }: Pick<IncomingMessage, "socket">): boolean {
    if (!(socket instanceof TLSSocket) || !socket.authorized) return false;
    const chain = chainOf(socket);
    const [client] = chain;
    if (client === undefined || !this.#isMeant(client)) return false;
    return chain.some((certificate) => this.#hasSigned(certificate));
  }

  #isMeant(client: X509Certificate): boolean {
    const { names } = this.#settings;
    const name = commonNameOf(client);
    return name !== undefined && (names.length === 0 || names.includes(name));
  }

  #hasSigned(certificate: X509Certificate): boolean {
    return this.#certificates.some(
      (ca) => certificate.checkIssued(ca) && certificate.verify(ca.publicKey),
    );
  }
}
