// SPDX-License-Identifier: Apache-2.0
// Service account tokens. Source: Kubernetes serviceaccount claims.
import type { JWK } from "jose";
import type { Clock } from "@patchbay/base";
import { type Fields, asList, textAt, valueAt } from "../../objects/json.ts";
import type { Address, KubeObject } from "../../objects/object.ts";
import type { Store } from "../../storage/store.ts";
import { quoteAll } from "../forbidden.ts";
import { AUTHENTICATED, type User, serviceAccountGroups, serviceAccountUser } from "../user.ts";
import { TokenSigner } from "./token-signer.ts";

/** Issuer and default audience of service account tokens. */
export const ISSUER = "https://kubernetes.default.svc.cluster.local";

const SECRET_ISSUER = "kubernetes/serviceaccount";

const SECRET_CLAIM_PREFIX = "kubernetes.io/serviceaccount/";
const EXTRA_KEY_PREFIX = "authentication.kubernetes.io/";

export interface ObjectLookup {
  find(address: Address): { view(): KubeObject } | undefined;
}

/** Object that a token is bound to; the token is valid only while the object exists. */
export interface BoundObject {
  readonly kind: "Pod" | "Secret";
  readonly name: string;
  readonly uid: string;
}

interface TokenSpec {
  readonly account: KubeObject;
  readonly audiences: readonly string[];
  readonly expiresInSeconds: number;
  readonly boundObject: BoundObject | undefined;
}

function toSubject(account: KubeObject): string {
  const { namespace = "", name } = account.metadata;
  return serviceAccountUser({ namespace, name });
}

export function toClaims(spec: TokenSpec, nowSeconds: number): Fields {
  const { account, audiences, expiresInSeconds, boundObject } = spec;
  const { namespace, name, uid } = account.metadata;
  const reference =
    boundObject === undefined
      ? {}
      : { [boundObject.kind.toLowerCase()]: { name: boundObject.name, uid: boundObject.uid } };
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

/** Builds claims without an expiry. The token is valid as long as its Secret exists. */
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
  readonly boundObject: BoundObject | undefined;
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
    boundObject: readBoundObject(privateClaims),
  };
}

function readSecretClaims(claims: Fields): TokenFacts {
  const claim = (key: string) => textAt(claims, `${SECRET_CLAIM_PREFIX}${key}`);
  return {
    namespace: claim("namespace"),
    account: { name: claim("service-account.name"), uid: claim("service-account.uid") },
    boundObject: { kind: "Secret", name: claim("secret.name"), uid: "" },
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
  { namespace, account, boundObject }: TokenFacts,
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
  if (boundObject === undefined) {
    return undefined;
  }
  const storedObject = find(boundObject.kind === "Pod" ? "/pods" : "/secrets", boundObject.name);
  const isSame =
    storedObject !== undefined && (boundObject.uid === "" || storedObject.uid === boundObject.uid);
  return isSame ? undefined : `service account token has been invalidated`;
}

function isStoredInSecret(
  store: ObjectLookup,
  { namespace, boundObject }: TokenFacts,
  token: string,
): boolean {
  const name = boundObject?.name ?? "";
  const secret = store.find({ bucket: "/secrets", namespace, name })?.view();
  return textAt(secret, "data", "token") === Buffer.from(token).toString("base64");
}

function toUser({ namespace, account, boundObject }: TokenFacts): User {
  const extra =
    boundObject?.kind === "Pod"
      ? {
          extra: {
            [`${EXTRA_KEY_PREFIX}pod-name`]: [boundObject.name],
            [`${EXTRA_KEY_PREFIX}pod-uid`]: [boundObject.uid],
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

/** Returns the user, or an error message if the token is not valid. */
export function findUserByClaims(
  presentedToken: { readonly token: string; readonly claims: Fields; readonly nowSeconds: number },
  store: ObjectLookup,
): User | string {
  const { token, claims, nowSeconds } = presentedToken;
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
  /** Private P-256 key for signing tokens, as PKCS #8 PEM. If it is undefined, a new key is generated. */
  readonly keyPem: string | undefined;
}

export interface TokenUser {
  readonly user: User;
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

  /** Returns the user, or a message if the token is not valid. Returns undefined if this server did not sign the token. */
  async authenticate(
    token: string,
    audiences: readonly string[],
  ): Promise<TokenUser | string | undefined> {
    const claims = await this.#signer.verify(token);
    if (claims === undefined) {
      return undefined;
    }
    const tokenAudiences = readAudiences(claims);
    const matchingAudiences = tokenAudiences.filter((audience) => audiences.includes(audience));
    if (matchingAudiences.length === 0) {
      return `token audiences ${quoteAll(tokenAudiences)} is invalid for the target audiences ${quoteAll(audiences)}`;
    }
    const presentedToken = { token, claims, nowSeconds: this.#nowSeconds() };
    const user = findUserByClaims(presentedToken, this.#deps.store);
    return typeof user === "string" ? user : { user, audiences: matchingAudiences };
  }

  #nowSeconds(): number {
    return Math.floor(this.#deps.clock.now() / 1000);
  }
}
