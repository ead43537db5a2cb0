// SPDX-License-Identifier: Apache-2.0
import {
  type KeyObject,
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
} from "node:crypto";
import { AppError, messageOf } from "@patchbay/base";
import type * as Jose from "jose";
import { type Fields, isFields } from "../../objects/json.ts";

export const ALGORITHM = "ES256";

/** Maximum number of verified tokens in the cache. A full cache is cleared. */
const CACHED_TOKENS_MAX = 1000;

const CURVE = "P-256";
const OPENSSL_CURVE = "prime256v1";

function loadJose(): Promise<typeof Jose> {
  return import("jose");
}

function loadKey(pem: string): KeyObject {
  try {
    const key = createPrivateKey(pem);
    if (key.asymmetricKeyDetails?.namedCurve === OPENSSL_CURVE) {
      return key;
    }
  } catch (error) {
    throw new AppError("APISERVER_TLS_INVALID", { reason: messageOf(error) }, { cause: error });
  }
  throw new AppError("APISERVER_TLS_INVALID", { reason: `the key for tokens is not on ${CURVE}` });
}

function generateKey(): KeyObject {
  return generateKeyPairSync("ec", { namedCurve: CURVE }).privateKey;
}

function parseClaims(payload: Uint8Array): Fields | undefined {
  try {
    const claims: unknown = JSON.parse(new TextDecoder().decode(payload));
    return isFields(claims) ? claims : undefined;
  } catch {
    return undefined;
  }
}

export class TokenSigner {
  readonly #privateKey: KeyObject;
  readonly #publicKey: KeyObject;
  readonly #keyId: string;
  readonly #verified = new Map<string, Fields>();

  /** Loads `keyPem` (P-256, PKCS #8), or generates a key. Throws an AppError APISERVER_TLS_INVALID for other keys. */
  constructor(keyPem: string | undefined) {
    this.#privateKey = keyPem === undefined ? generateKey() : loadKey(keyPem);
    this.#publicKey = createPublicKey(this.#privateKey);
    const der = this.#publicKey.export({ type: "spki", format: "der" });
    this.#keyId = createHash("sha256").update(der).digest("base64url");
  }

  async sign(claims: Fields): Promise<string> {
    const { CompactSign } = await loadJose();
    const payload = new TextEncoder().encode(JSON.stringify(claims));
    return new CompactSign(payload)
      .setProtectedHeader({ alg: ALGORITHM, kid: this.#keyId })
      .sign(this.#privateKey);
  }

  /** Returns the claims, or undefined if the signature or the payload is invalid. */
  async verify(token: string): Promise<Fields | undefined> {
    const cachedClaims = this.#verified.get(token);
    if (cachedClaims !== undefined) {
      return cachedClaims;
    }
    const claims = await this.#verifySignature(token);
    if (claims !== undefined) {
      if (this.#verified.size >= CACHED_TOKENS_MAX) {
        this.#verified.clear();
      }
      this.#verified.set(token, claims);
    }
    return claims;
  }

  /** Returns the public keys as JWKs. Source: RFC 7517. */
  async publicKeys(): Promise<readonly Jose.JWK[]> {
    const { exportJWK } = await loadJose();
    const key = await exportJWK(this.#publicKey);
    return [{ use: "sig", ...key, kid: this.#keyId, alg: ALGORITHM }];
  }

  async #verifySignature(token: string): Promise<Fields | undefined> {
    const { compactVerify, errors } = await loadJose();
    try {
      const { payload } = await compactVerify(token, this.#publicKey, { algorithms: [ALGORITHM] });
      return parseClaims(payload);
    } catch (error) {
      if (error instanceof errors.JOSEError) {
        return undefined;
      }
      throw error;
    }
  }
}
