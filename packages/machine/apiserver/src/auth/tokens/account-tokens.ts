// SPDX-License-Identifier: Apache-2.0
// Tokens of service accounts: issued, and checked against the stored objects. Source: Kubernetes serviceaccount claims.
import type { JWK } from "jose";
import type { Clock } from "@patchbay/core/ports";
import { type Fields, listOf, textAt, valueAt } from "../../objects/json.ts";
import type { Address, KubeObject } from "../../objects/object.ts";
import type { Store } from "../../storage/store.ts";
import { quoteAll } from "../forbidden.ts";
import { AUTHENTICATED, type User, groupsOfServiceAccount, userOfServiceAccount } from "../user.ts";
import { TokenSigner } from "./token-signer.ts";

/** Who signs, and whom tokens are for where nobody else is named. */
export const ISSUER = "https://kubernetes.default.svc.cluster.local";

/** Who signs tokens that are kept in secrets. */
const SECRET_ISSUER = "kubernetes/serviceaccount";

const SECRET_CLAIM = "kubernetes.io/serviceaccount/";
const EXTRA = "authentication.kubernetes.io/";

/** Where accounts, pods and secrets are looked up. */
export interface Lookup {
  find(address: Address): { view(): KubeObject } | undefined;
}

/** An object that a token ends with. */
export interface BoundObject {
  readonly kind: "Pod" | "Secret";
  readonly name: string;
  readonly uid: string;
}

/** What a token is to say. */
interface TokenSpec {
  readonly account: KubeObject;
  readonly audiences: readonly string[];
  readonly expiresInSeconds: number;
  readonly bound: BoundObject | undefined;
}

function subjectOf(account: KubeObject): string {
  const { namespace = "", name } = account.metadata;
  return userOfServiceAccount({ namespace, name });
}

/** Claims of a token that ends. */
export function claimsFor(spec: TokenSpec, nowSeconds: number): Fields {
  const { account, audiences, expiresInSeconds, bound } = spec;
  const { namespace, name, uid } = account.metadata;
  const reference =
    bound === undefined ? {} : { [bound.kind.toLowerCase()]: { name: bound.name, uid: bound.uid } };
  return {
    aud: audiences,
    exp: nowSeconds + expiresInSeconds,
    iat: nowSeconds,
    iss: ISSUER,
    "kubernetes.io": { namespace, ...reference, serviceaccount: { name, uid } },
    nbf: nowSeconds,
    sub: subjectOf(account),
  };
}

/** Claims of a token that lives as long as the secret that it is kept in. */
function secretClaimsFor(account: KubeObject, secret: string): Fields {
  const { namespace, name, uid } = account.metadata;
  return {
    iss: SECRET_ISSUER,
    [`${SECRET_CLAIM}namespace`]: namespace,
    [`${SECRET_CLAIM}secret.name`]: secret,
    [`${SECRET_CLAIM}service-account.name`]: name,
    [`${SECRET_CLAIM}service-account.uid`]: uid,
    sub: subjectOf(account),
  };
}

/** What a believed token says. */
interface Said {
  readonly namespace: string;
  readonly account: { readonly name: string; readonly uid: string };
  readonly bound: BoundObject | undefined;
}

function boundIn(claims: unknown): BoundObject | undefined {
  for (const kind of ["Pod", "Secret"] as const) {
    const name = textAt(claims, kind.toLowerCase(), "name");
    if (name !== "") {
      return { kind, name, uid: textAt(claims, kind.toLowerCase(), "uid") };
    }
  }
  return undefined;
}

function said(claims: Fields): Said {
  const own = claims["kubernetes.io"];
  const account = (key: string) => textAt(own, "serviceaccount", key);
  return {
    namespace: textAt(own, "namespace"),
    account: { name: account("name"), uid: account("uid") },
    bound: boundIn(own),
  };
}

function saidBySecret(claims: Fields): Said {
  const of = (key: string) => textAt(claims, `${SECRET_CLAIM}${key}`);
  return {
    namespace: of("namespace"),
    account: { name: of("service-account.name"), uid: of("service-account.uid") },
    bound: { kind: "Secret", name: of("secret.name"), uid: "" },
  };
}

/** Why time speaks against the token; undefined where it does not. */
function timeFault(claims: Fields, nowSeconds: number): string | undefined {
  const { exp, nbf } = claims;
  if (typeof exp !== "number" || exp <= nowSeconds) {
    return "service account token has expired";
  }
  return typeof nbf === "number" && nbf > nowSeconds
    ? "service account token is not valid yet"
    : undefined;
}

function liveFault(store: Lookup, { namespace, account, bound }: Said): string | undefined {
  const find = (bucket: string, name: string) =>
    store.find({ bucket, namespace, name })?.view().metadata;
  const found = find("/serviceaccounts", account.name);
  if (found === undefined) {
    return `service account ${namespace}/${account.name} has been deleted`;
  }
  if (found.uid !== account.uid) {
    return `service account UID (${found.uid ?? ""}) does not match claim (${account.uid})`;
  }
  if (bound === undefined) {
    return undefined;
  }
  const holder = find(bound.kind === "Pod" ? "/pods" : "/secrets", bound.name);
  const isSame = holder !== undefined && (bound.uid === "" || holder.uid === bound.uid);
  return isSame ? undefined : `service account token has been invalidated`;
}

/** Whether the secret still holds this very token. */
function isKept(store: Lookup, { namespace, bound }: Said, token: string): boolean {
  const name = bound?.name ?? "";
  const secret = store.find({ bucket: "/secrets", namespace, name })?.view();
  return textAt(secret, "data", "token") === Buffer.from(token).toString("base64");
}

function userOf({ namespace, account, bound }: Said): User {
  const extra =
    bound?.kind === "Pod"
      ? { extra: { [`${EXTRA}pod-name`]: [bound.name], [`${EXTRA}pod-uid`]: [bound.uid] } }
      : {};
  return {
    name: userOfServiceAccount({ namespace, name: account.name }),
    uid: account.uid,
    groups: [...groupsOfServiceAccount(namespace), AUTHENTICATED],
    ...extra,
  };
}

/** Whom a token is for. */
function audiencesOf(claims: Fields): readonly string[] {
  return claims["iss"] === SECRET_ISSUER ? [ISSUER] : listOf(valueAt(claims, "aud")).map(String);
}

/** The user whom claims name, or why they name nobody any more. */
export function userOfClaims(
  given: { readonly token: string; readonly claims: Fields; readonly nowSeconds: number },
  store: Lookup,
): User | string {
  const { token, claims, nowSeconds } = given;
  if (claims["iss"] === SECRET_ISSUER) {
    const facts = saidBySecret(claims);
    const kept = isKept(store, facts, token);
    return (kept ? liveFault(store, facts) : "Token has been invalidated") ?? userOf(facts);
  }
  const facts = said(claims);
  return timeFault(claims, nowSeconds) ?? liveFault(store, facts) ?? userOf(facts);
}

/** Where accounts and the objects that tokens are bound to are looked up, and by which key tokens are signed. */
interface AccountTokensDeps {
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
