// SPDX-License-Identifier: Apache-2.0
// Who is behind a connection or a token?
import { createHash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { TLSSocket } from "node:tls";
import type { User } from "./user.ts";

const AUTHENTICATED = "system:authenticated";

/** A token that the server accepts. Secret. */
export interface TokenEntry {
  readonly token: string;
  readonly user: string;
  readonly groups: readonly string[];
}

function digest(token: string): string {
  return createHash("sha256").update(token).digest("hex");
}

/** A subject's attribute is a text, or a list where it is there more than once. */
function textsOf(value: unknown): string[] {
  return [value].flat().filter((item): item is string => typeof item === "string");
}

function userOfCertificate(socket: TLSSocket): User | undefined {
  if (!socket.authorized) {
    return undefined;
  }
  const subject: unknown = socket.getPeerCertificate().subject;
  // Node gives the subject as attribute names to text, or list of texts.
  const attributes = (subject ?? {}) as Readonly<Record<string, unknown>>;
  const [name] = textsOf(attributes["CN"]);
  return name === undefined
    ? undefined
    : { name, groups: [...textsOf(attributes["O"]), AUTHENTICATED] };
}

/** Finds users. Certificates are read once for each connection. */
export class Authentication {
  readonly #users = new Map<string, User>();
  readonly #sockets = new WeakMap<TLSSocket, User | null>();

  constructor(tokens: readonly TokenEntry[]) {
    for (const { token, user, groups } of tokens) {
      this.#users.set(digest(token), { name: user, groups: [...groups, AUTHENTICATED] });
    }
  }

  /** The user of a token. */
  findByToken(token: string): User | undefined {
    return this.#users.get(digest(token));
  }

  /** The user of a request; undefined where nobody is known. A token that is wrong is not made up for by a certificate. */
  find(request: IncomingMessage): User | undefined {
    const header = request.headers.authorization;
    if (header !== undefined) {
      const [, token] = /^Bearer\s+(\S+)$/i.exec(header) ?? [];
      return token === undefined ? undefined : this.findByToken(token);
    }
    const { socket } = request;
    return socket instanceof TLSSocket ? this.#findBySocket(socket) : undefined;
  }

  #findBySocket(socket: TLSSocket): User | undefined {
    const known = this.#sockets.get(socket);
    if (known !== undefined) {
      return known ?? undefined;
    }
    const user = userOfCertificate(socket);
    this.#sockets.set(socket, user ?? null);
    return user;
  }
}
