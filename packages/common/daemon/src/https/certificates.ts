// SPDX-License-Identifier: Apache-2.0
// Sources of certificates and CAs. A source can be read, and watched for changes.
import { X509Certificate } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { dirname } from "node:path";
import { TLSSocket } from "node:tls";
import { AppError } from "@patchbay/base";
import type { Files } from "@patchbay/core/interfaces";
import { splitBundle } from "@patchbay/pki";

export interface Source<T> {
  /** @throws AppError if there is no valid value */
  read(): Promise<T>;
  /** Calls `listener` after each change until the signal is aborted. */
  onChange(listener: () => void, signal: AbortSignal): void;
}

export interface KeyPair {
  readonly certPem: string;
  readonly keyPem: string;
}

/** Certificate authority, and the names of its trusted clients. */
export interface Trust {
  readonly caPem: string;
  /** Common names of trusted clients; empty to trust every client of the authority. */
  readonly names: readonly string[];
}

async function readRequired(files: Files, path: string): Promise<string> {
  const text = await files.readText(path);
  if (text !== undefined) return text;
  throw new AppError("OS_FILE_FAILED", { call: "open", path, reason: "no such file" });
}

function followFile(files: Files, path: string): Source<unknown>["onChange"] {
  return (listener, signal) => {
    files.watchDirectory(dirname(path), listener, signal);
  };
}

/** Creates a source that reads a key pair from two files. Writers must replace the key first, because only the certificate is watched. */
export function certificateInFiles(
  files: Files,
  paths: { readonly certFile: string; readonly keyFile: string },
): Source<KeyPair> {
  return {
    read: async () => ({
      certPem: await readRequired(files, paths.certFile),
      keyPem: await readRequired(files, paths.keyFile),
    }),
    onChange: followFile(files, paths.certFile),
  };
}

/** Creates a source that reads the authority from a CA file. The trusted names do not change. */
export function trustInFile(
  files: Files,
  { caFile, names }: { readonly caFile: string; readonly names: readonly string[] },
): Source<Trust> {
  return {
    read: async () => ({ caPem: await readRequired(files, caFile), names }),
    onChange: followFile(files, caFile),
  };
}

function listChain(socket: TLSSocket): readonly X509Certificate[] {
  const chain: X509Certificate[] = [];
  let next = socket.getPeerX509Certificate();
  while (next !== undefined && !chain.some(({ raw }) => next?.raw.equals(raw) === true)) {
    chain.push(next);
    next = next.issuerCertificate;
  }
  return chain;
}

function findCommonName(certificate: X509Certificate): string | undefined {
  // Node.js returns an attribute as a string, or as a list of strings if the attribute occurs more than once.
  const subject: Readonly<Record<string, unknown>> = { ...certificate.toLegacyObject().subject };
  return typeof subject["CN"] === "string" ? subject["CN"] : undefined;
}

/** Decides which clients with certificates of one authority are trusted. Trusts no client before the first `read`. */
export class ClientAuthority {
  readonly #source: Source<Trust>;
  #names: readonly string[] = [];
  #certificates: readonly X509Certificate[] = [];
  /** Verification results by connection, because a client presents its certificate once per connection. `read` clears these results. */
  #results = new WeakMap<TLSSocket, boolean>();

  constructor(source: Source<Trust>) {
    this.#source = source;
  }

  /** Reads the authority. Returns its PEM text. @throws AppError if the source has no valid value, Error for a malformed certificate */
  async read(): Promise<string> {
    const { caPem, names } = await this.#source.read();
    this.#certificates = splitBundle(caPem).map((pem) => new X509Certificate(pem));
    this.#names = names;
    this.#results = new WeakMap();
    return caPem;
  }

  /** Until the signal is aborted, calls `listener` after each change of the authority's source. `listener` must then call `read`. */
  onChange(listener: () => void, signal: AbortSignal): void {
    this.#source.onChange(listener, signal);
  }

  /**
   * Returns whether the client is trusted. Node.js' `authorized` does not suffice: it is true for clients of all
   * authorities, and in Node.js 20 also for resumed TLS 1.3 sessions without a certificate.
   */
  isTrustedClient({ socket }: Pick<IncomingMessage, "socket">): boolean {
    if (!(socket instanceof TLSSocket) || !socket.authorized) return false;
    const isTrusted = this.#results.get(socket) ?? this.#verify(socket);
    this.#results.set(socket, isTrusted);
    return isTrusted;
  }

  #verify(socket: TLSSocket): boolean {
    const chain = listChain(socket);
    const [client] = chain;
    if (client === undefined || !this.#isTrustedName(client)) return false;
    return chain.some((certificate) => this.#hasSigned(certificate));
  }

  #isTrustedName(client: X509Certificate): boolean {
    const name = findCommonName(client);
    return name !== undefined && (this.#names.length === 0 || this.#names.includes(name));
  }

  #hasSigned(certificate: X509Certificate): boolean {
    return this.#certificates.some(
      (ca) => certificate.checkIssued(ca) && certificate.verify(ca.publicKey),
    );
  }
}
