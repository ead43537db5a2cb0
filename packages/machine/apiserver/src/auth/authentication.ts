// SPDX-License-Identifier: Apache-2.0
// Who is behind a connection or a token?
import { createHash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { TLSSocket } from "node:tls";
import { unauthorized } from "../meta/status.ts";
import { type AccountTokens, ISSUER, type TokenUser } from "./tokens/account-tokens.ts";
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

/** Whoever a certificate shows, whether there is none, or whether it is not to be trusted. */
type Shown = User | "none" | "bad";

function shownBy(socket: TLSSocket): Shown {
  const subject: unknown = socket.getPeerCertificate().subject;
  if (subject === undefined) {
    return "none";
  }
  // Node gives the subject as attribute names to text, or list of texts.
  const attributes = subject as Readonly<Record<string, unknown>>;
  const [name] = textsOf(attributes["CN"]);
  return !socket.authorized || name === undefined
    ? "bad"
    : { name, groups: [...textsOf(attributes["O"]), AUTHENTICATED] };
}

/** The bearer token of a request; undefined where there is none. */
function tokenOf(request: IncomingMessage): string | undefined {
  const [scheme = "", token = ""] = (request.headers.authorization ?? "").trim().split(" ");
  return scheme.toLowerCase() === "bearer" && token !== "" ? token : undefined;
}

/** Why a token is nobody's. */
export class TokenRefused extends Error {
  override readonly name = "TokenRefused";
}

const INVALID = "invalid bearer token";

/** Finds users. Certificates are read once for each connection. */
export class Authentication {
  readonly #users = new Map<string, User>();
  readonly #accounts: AccountTokens;
  readonly #sockets = new WeakMap<TLSSocket, Shown>();

  constructor(tokens: readonly TokenEntry[], accounts: AccountTokens) {
    this.#accounts = accounts;
    for (const { token, user, groups } of tokens) {
      this.#users.set(digest(token), { name: user, groups: [...groups, AUTHENTICATED] });
    }
  }

  /** Whose token it is, if it is for one of the audiences; none given: for this server. Throws TokenRefused. */
  async findByToken(token: string, audiences: readonly string[] = []): Promise<TokenUser> {
    const wanted = audiences.length === 0 ? [ISSUER] : audiences;
    const user = this.#users.get(digest(token));
    if (user !== undefined && wanted.includes(ISSUER)) {
      return { user, audiences: [ISSUER] };
    }
    const found = await this.#accounts.recognize(token, wanted);
    if (typeof found !== "object") {
      throw new TokenRefused(found === undefined ? INVALID : `[${INVALID}, ${found}]`);
    }
    return found;
  }

  /** The user of a request, by certificate, then by token; anonymous without either. Throws a StatusError 401 for what is wrong. */
  async find(request: IncomingMessage): Promise<User> {
    const { socket } = request;
    const shown = socket instanceof TLSSocket ? this.#findBySocket(socket) : "none";
    if (typeof shown === "object") {
      return shown;
    }
    const token = tokenOf(request);
    if (token !== undefined) {
      return this.#findOrRefuse(token);
    }
    if (shown === "bad") {
      throw unauthorized();
    }
    return ANONYMOUS;
  }

  async #findOrRefuse(token: string): Promise<User> {
    try {
      return (await this.findByToken(token)).user;
    } catch (error) {
      throw error instanceof TokenRefused ? unauthorized() : error;
    }
  }

  #findBySocket(socket: TLSSocket): Shown {
    const known = this.#sockets.get(socket);
    if (known !== undefined) {
      return known;
    }
    const shown = shownBy(socket);
    this.#sockets.set(socket, shown);
    return shown;
  }
}
