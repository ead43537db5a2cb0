// SPDX-License-Identifier: Apache-2.0
import { createHash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { TLSSocket } from "node:tls";
import { unauthorized } from "../meta/status.ts";
import { type AccountTokens, ISSUER, type TokenUser } from "./tokens/account-tokens.ts";
import { ANONYMOUS, AUTHENTICATED, type User } from "./user.ts";

export interface TokenEntry {
  readonly token: string;
  readonly user: string;
  readonly groups: readonly string[];
}

function hashToken(token: string): string {
  return createHash("sha256").update(token).digest("hex");
}

/** Returns the values of a certificate attribute. Node.js returns an array only for an attribute that occurs several times. */
function toStrings(value: unknown): string[] {
  return [value].flat().filter((item): item is string => typeof item === "string");
}

/** Result of reading a client certificate. `none`: the client sent none. `bad`: the certificate is untrusted or has no CN. */
type CertificateResult = User | "none" | "bad";

function readCertificate(socket: TLSSocket): CertificateResult {
  const subject: unknown = socket.getPeerCertificate().subject;
  if (subject === undefined) {
    return "none";
  }
  const attributes = subject as Readonly<Record<string, unknown>>;
  const [name] = toStrings(attributes["CN"]);
  return !socket.authorized || name === undefined
    ? "bad"
    : { name, groups: [...toStrings(attributes["O"]), AUTHENTICATED] };
}

function readBearerToken(request: IncomingMessage): string | undefined {
  const [scheme = "", token = ""] = (request.headers.authorization ?? "").trim().split(" ");
  return scheme.toLowerCase() === "bearer" && token !== "" ? token : undefined;
}

export class TokenRejected extends Error {
  override readonly name = "TokenRejected";
}

const INVALID_TOKEN_MESSAGE = "invalid bearer token";

/** Authenticates requests. Reads the client's certificate once for each connection, not for each request. */
export class Authentication {
  readonly #users = new Map<string, User>();
  readonly #accounts: AccountTokens;
  readonly #sockets = new WeakMap<TLSSocket, CertificateResult>();

  constructor(tokens: readonly TokenEntry[], accounts: AccountTokens) {
    this.#accounts = accounts;
    for (const { token, user, groups } of tokens) {
      this.#users.set(hashToken(token), { name: user, groups: [...groups, AUTHENTICATED] });
    }
  }

  /** Returns the token's user. The default audience is this server. Throws TokenRejected for an invalid token. */
  async authenticateToken(token: string, audiences: readonly string[] = []): Promise<TokenUser> {
    const requestedAudiences = audiences.length === 0 ? [ISSUER] : audiences;
    const user = this.#users.get(hashToken(token));
    if (user !== undefined && requestedAudiences.includes(ISSUER)) {
      return { user, audiences: [ISSUER] };
    }
    const result = await this.#accounts.authenticate(token, requestedAudiences);
    if (typeof result !== "object") {
      throw new TokenRejected(
        result === undefined ? INVALID_TOKEN_MESSAGE : `[${INVALID_TOKEN_MESSAGE}, ${result}]`,
      );
    }
    return result;
  }

  /** Returns the certificate's user, otherwise the token's user, otherwise ANONYMOUS. Throws a StatusError 401 for invalid credentials. */
  async authenticate(request: IncomingMessage): Promise<User> {
    const { socket } = request;
    const certificate = socket instanceof TLSSocket ? this.#certificateOf(socket) : "none";
    if (typeof certificate === "object") {
      return certificate;
    }
    const token = readBearerToken(request);
    if (token !== undefined) {
      return this.#authenticateToken(token);
    }
    if (certificate === "bad") {
      throw unauthorized();
    }
    return ANONYMOUS;
  }

  async #authenticateToken(token: string): Promise<User> {
    try {
      return (await this.authenticateToken(token)).user;
    } catch (error) {
      throw error instanceof TokenRejected ? unauthorized() : error;
    }
  }

  #certificateOf(socket: TLSSocket): CertificateResult {
    const cachedCertificate = this.#sockets.get(socket);
    if (cachedCertificate !== undefined) {
      return cachedCertificate;
    }
    const result = readCertificate(socket);
    this.#sockets.set(socket, result);
    return result;
  }
}
