// SPDX-License-Identifier: Apache-2.0
// Who is behind a connection or a token?
import { createHash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { TLSSocket } from "node:tls";
import { unauthorized } from "../http/status.ts";
import { ANONYMOUS, AUTHENTICATED, type User } from "./user.ts";

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

/** The user of a certificate; undefined where there is none, null where it is not to be trusted. */
function userOfCertificate(socket: TLSSocket): User | undefined | null {
  const subject: unknown = socket.getPeerCertificate().subject;
  if (subject === undefined) {
    return undefined;
  }
  // Node gives the subject as attribute names to text, or list of texts.
  const attributes = subject as Readonly<Record<string, unknown>>;
  const [name] = textsOf(attributes["CN"]);
  return !socket.authorized || name === undefined
    ? null
    : { name, groups: [...textsOf(attributes["O"]), AUTHENTICATED] };
}

/** The bearer token of a request; undefined where there is none. */
function tokenOf(request: IncomingMessage): string | undefined {
  const [scheme = "", token = ""] = (request.headers.authorization ?? "").trim().split(" ");
  return scheme.toLowerCase() === "bearer" && token !== "" ? token : undefined;
}

/** Finds users. Certificates are read once for each connection. */
export class Authentication {
  readonly #users = new Map<string, User>();
  readonly #sockets = new WeakMap<TLSSocket, User | "none" | "bad">();

  constructor(tokens: readonly TokenEntry[]) {
    for (const { token, user, groups } of tokens) {
      this.#users.set(digest(token), { name: user, groups: [...groups, AUTHENTICATED] });
    }
  }

  /** The user of a token. */
  findByToken(token: string): User | undefined {
    return this.#users.get(digest(token));
  }

  /** The user of a request, by certificate, then by token; anonymous without either. Throws a StatusError 401 for what is wrong. */
  find(request: IncomingMessage): User {
    const { socket } = request;
    const known = socket instanceof TLSSocket ? this.#findBySocket(socket) : "none";
    if (typeof known === "object") {
      return known;
    }
    const token = tokenOf(request);
    const user = token === undefined ? undefined : this.findByToken(token);
    if (user === undefined && (token !== undefined || known === "bad")) {
      throw unauthorized();
    }
    return user ?? ANONYMOUS;
  }

  #findBySocket(socket: TLSSocket): User | "none" | "bad" {
    const known = this.#sockets.get(socket);
    if (known !== undefined) {
      return known;
    }
    const user = userOfCertificate(socket);
    const found = user === undefined ? "none" : (user ?? "bad");
    this.#sockets.set(socket, found);
    return found;
  }
}
