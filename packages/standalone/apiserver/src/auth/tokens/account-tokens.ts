// SPDX-License-Identifier: Apache-2.0
// Source: Kubernetes serviceaccount claims.
import type { JWK } from "jose";
import type { Clock } from "@patchbay/base";
import { type Fields, asList, textAt, valueAt } from "../../objects/json.ts";
import type { Address, KubeObject } from "../../objects/object.ts";
import type { Store } from "../../storage/store.ts";
import { quoteAll } from "../forbidden.ts";
import { AUTHENTICATED, type User, serviceAccountGroups, serviceAccountUser } from "../user.ts";
import { TokenSigner } from "./token-signer.ts";

/** Issuer of tokens, and their default audience. */
export const ISSUER = "https://kubernetes.default.svc.cluster.local";

/** Issuer of tokens in Secrets. */
const SECRET_ISSUER = "kubernetes/serviceaccount";

const SECRET_CLAIM_PREFIX = "kubernetes.io/serviceaccount/";
const EXTRA_KEY_PREFIX = "authentication.kubernetes.io/";

export interface ObjectLookup {
  find(address: Address): { view(): KubeObject } | undefined;
}

/** The token is valid only while this object exists. */
export interface BoundObject {
  readonly kind: "Pod" | "Secret";
  readonly name: string;
  readonly uid: string;
}

interface TokenSpec {
  readonly account: KubeObject;
  readonly audiences: readonly string[];
  readonly expiresInSeconds: number;
  readonly bound: BoundObject | undefined;
}

function toSubject(account: KubeObject): string {
  const { namespace = "", name } = account.metadata;
  return serviceAccountUser({ namespace, name });
}

export function toClaims(spec: TokenSpec, nowSeconds: number): Fields {
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
    sub: toSubject(account),
  };
}

/** The token has no expiry; it is valid as long as its Secret exists. */
function toSecretClaims(account: KubeObject, secret: string): Fields {
  const { namespace, name, uid } = account.metadata;
  return {
    iss: SECRET_ISSUER,
    [`${SECRET_CLAIM_PREFIX}namespace`]: namespace,
    [`${SECRET_CLAIM_PREFIX}secret.name`]: secret,
    [`${SECRET_CLAIM_PREFIX}service-account.name`]: name,
    [`${SECRET_CLAIM_PREFIX}service-account.uid`]: uid,
    sub: toSubject(account),
  };
}

interface TokenFacts {
  readonly namespace: string;
  readonly account: { readonly name: string; readonly uid: string };
  readonly bound: BoundObject | undefined;
}

function readBoundObject(claims: unknown): BoundObject | undefined {
  for (const kind of ["Pod", "Secret"] as const) {
    const name = textAt(claims, kind.toLowerCase(), "name");
    if (name !== "") {
      return { kind, name, uid: textAt(claims, kind.toLowerCase(), "uid") };
    }
  }
  return undefined;
}

function readClaims(claims: Fields): TokenFacts {
  const privateClaims = claims["kubernetes.io"];
  const account = (key: string) => textAt(privateClaims, "serviceaccount", key);
  return {
    namespace: textAt(privateClaims, "namespace"),
    account: { name: account("name"), uid: account("uid") },
    bound: readBoundObject(privateClaims),
  };
}

function readSecretClaims(claims: Fields): TokenFacts {
  const claim = (key: string) => textAt(claims, `${SECRET_CLAIM_PREFIX}${key}`);
  return {
    namespace: claim("namespace"),
    account: { name: claim("service-account.name"), uid: claim("service-account.uid") },
    bound: { kind: "Secret", name: claim("secret.name"), uid: "" },
  };
}

function timeFault(claims: Fields, nowSeconds: number): string | undefined {
  const { exp, nbf } = claims;
  if (typeof exp !== "number" || exp <= nowSeconds) {
    return "service account token has expired";
  }
  return typeof nbf === "number" && nbf > nowSeconds
    ? "service account token is not valid yet"
    : undefined;
}

function objectFault(
  store: ObjectLookup,
  { namespace, account, bound }: TokenFacts,
): string | undefined {
  const find = (bucket: string, name: string) =>
    store.find({ bucket, namespace, name })?.view().metadata;
  const accountMetadata = find("/serviceaccounts", account.name);
  if (accountMetadata === undefined) {
    return `service account ${namespace}/${account.name} has been deleted`;
  }
  if (accountMetadata.uid !== account.uid) {
    return `service account UID (${accountMetadata.uid ?? ""}) does not match claim (${account.uid})`;
  }
  if (bound === undefined) {
    return undefined;
  }
  const holder = find(bound.kind === "Pod" ? "/pods" : "/secrets", bound.name);
  const isSame = holder !== undefined && (bound.uid === "" || holder.uid === bound.uid);
  return isSame ? undefined : `service account token has been invalidated`;
}

function isStoredInSecret(
  store: ObjectLookup,
  { namespace, bound }: TokenFacts,
  token: string,
): boolean {
  const name = bound?.name ?? "";
  const secret = store.find({ bucket: "/secrets", namespace, name })?.view();
  return textAt(secret, "data", "token") === Buffer.from(token).toString("base64");
}

function toUser({ namespace, account, bound }: TokenFacts): User {
  const extra =
    bound?.kind === "Pod"
      ? {
          extra: {
            [`${EXTRA_KEY_PREFIX}pod-name`]: [bound.name],
            [`${EXTRA_KEY_PREFIX}pod-uid`]: [bound.uid],
          },
        }
      : {};
  return {
    name: serviceAccountUser({ namespace, name: account.name }),
    uid: account.uid,
    groups: [...serviceAccountGroups(namespace), AUTHENTICATED],
    ...extra,
  };
}

function readAudiences(claims: Fields): readonly string[] {
  return claims["iss"] === SECRET_ISSUER ? [ISSUER] : asList(valueAt(claims, "aud")).map(String);
}

/** Returns a message if the account or the bound object no longer exists. */
export function findUserByClaims(
  presented: { readonly token: string; readonly claims: Fields; readonly nowSeconds: number },
  store: ObjectLookup,
): User | string {
  const { token, claims, nowSeconds } = presented;
  if (claims["iss"] === SECRET_ISSUER) {
    const facts = readSecretClaims(claims);
    const isStored = isStoredInSecret(store, facts, token);
    return (isStored ? objectFault(store, facts) : "Token has been invalidated") ?? toUser(facts);
  }
  const facts = readClaims(claims);
  return timeFault(claims, nowSeconds) ?? objectFault(store, facts) ?? toUser(facts);
}

interface AccountTokensDeps {
  readonly store: Pick<Store, "find">;
  readonly clock: Clock;
  /** P-256, PKCS #8 PEM. Unset: a new key is generated. Secret. */
  readonly keyPem: string | undefined;
}

export interface TokenUser {
  readonly user: User;
  /** The requested audiences for which the token is valid. */
  readonly audiences: readonly string[];
}

export class AccountTokens {
  readonly #deps: AccountTokensDeps;
  readonly #signer: TokenSigner;

  constructor(deps: AccountTokensDeps) {
    this.#deps = deps;
    this.#signer = new TokenSigner(deps.keyPem);
  }

  issue(spec: TokenSpec): Promise<string> {
    return this.#signer.sign(toClaims(spec, this.#nowSeconds()));
  }

  issueForSecret(account: KubeObject, secret: string): Promise<string> {
    return this.#signer.sign(toSecretClaims(account, secret));
  }

  publicKeys(): Promise<readonly JWK[]> {
    return this.#signer.publicKeys();
  }

  /** Returns a message if the token is no longer valid, and undefined if this server did not sign it. */
  async authenticate(
    token: string,
    audiences: readonly string[],
  ): Promise<TokenUser | string | undefined> {
    const claims = await this.#signer.verify(token);
    if (claims === undefined) {
      return undefined;
    }
    const tokenAudiences = readAudiences(claims);
    const matching = tokenAudiences.filter((audience) => audiences.includes(audience));
    if (matching.length === 0) {
      return `token audiences ${quoteAll(tokenAudiences)} is invalid for the target audiences ${quoteAll(audiences)}`;
    }
    const presented = { token, claims, nowSeconds: this.#nowSeconds() };
    const user = findUserByClaims(presented, this.#deps.store);
    return typeof user === "string" ? user : { user, audiences: matching };
  }

  #nowSeconds(): number {
    return Math.floor(this.#deps.clock.now() / 1000);
  }
}
