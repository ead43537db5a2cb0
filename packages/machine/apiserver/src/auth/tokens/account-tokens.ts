// SPDX-License-Identifier: Apache-2.0
// Tokens of service accounts: given out, and recognized.
import type { Clock } from "@patchbay/core/ports";
import type { JWK } from "jose";
import type { KubeObject } from "../../objects/object.ts";
import type { Store } from "../../storage/store.ts";
import {
  type TokenSpec,
  audiencesOf,
  claimsFor,
  secretClaimsFor,
  userOfClaims,
} from "./account-claims.ts";
import { quoteAll } from "../rbac/covers.ts";
import { TokenSigner } from "./token-signer.ts";
import type { User } from "../user.ts";

/** Where accounts and the objects that tokens are bound to are looked up, and by which key tokens are signed. */
export interface AccountTokensDeps {
  readonly store: Pick<Store, "find">;
  readonly clock: Clock;
  /** P-256, PKCS #8 PEM; absent: a new key. Secret. */
  readonly keyPem: string | undefined;
}

/** Somebody known by a token. */
export interface TokenUser {
  readonly user: User;
  /** For whom the token is, of those who were asked about. */
  readonly audiences: readonly string[];
}

/** Gives out tokens, and tells whose they are. */
export class AccountTokens {
  readonly #deps: AccountTokensDeps;
  readonly #signer: TokenSigner;

  constructor(deps: AccountTokensDeps) {
    this.#deps = deps;
    this.#signer = new TokenSigner(deps.keyPem);
  }

  /** A token that ends. */
  issue(spec: TokenSpec): Promise<string> {
    return this.#signer.sign(claimsFor(spec, this.#nowSeconds()));
  }

  /** A token for a secret. */
  issueForSecret(account: KubeObject, secret: string): Promise<string> {
    return this.#signer.sign(secretClaimsFor(account, secret));
  }

  /** The public keys by which others check tokens. */
  publicKeys(): Promise<readonly JWK[]> {
    return this.#signer.publicKeys();
  }

  /** Whose token it is; a text where it is nobody's any more; undefined where it is none of ours. */
  async recognize(
    token: string,
    audiences: readonly string[],
  ): Promise<TokenUser | string | undefined> {
    const claims = await this.#signer.verify(token);
    if (claims === undefined) {
      return undefined;
    }
    const meant = audiencesOf(claims);
    const both = meant.filter((audience) => audiences.includes(audience));
    if (both.length === 0) {
      return `token audiences ${quoteAll(meant)} is invalid for the target audiences ${quoteAll(audiences)}`;
    }
    const given = { token, claims, nowSeconds: this.#nowSeconds() };
    const user = userOfClaims(given, this.#deps.store);
    return typeof user === "string" ? user : { user, audiences: both };
  }

  #nowSeconds(): number {
    return Math.floor(this.#deps.clock.now() / 1000);
  }
}
