// SPDX-License-Identifier: Apache-2.0
// Signs and checks what tokens claim. What claims mean is not decided here.
import {
  type KeyObject,
  createHash,
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
} from "node:crypto";
import { AppError, messageOf } from "@patchbay/core/errors";
import type * as Jose from "jose";
import { type Fields, isFields } from "../../objects/json.ts";

/** The only algorithm that is used and believed. */
export const ALGORITHM = "ES256";

/** Checked tokens that are remembered; beyond that it begins anew. */
const REMEMBERED_MAX = 1000;

const CURVE = "P-256";
/** The same curve by the name that OpenSSL uses. */
const CURVE_OF_KEYS = "prime256v1";

/** Loaded with the first token. */
function library(): Promise<typeof Jose> {
  return import("jose");
}

function loadKey(pem: string): KeyObject {
  try {
    const key = createPrivateKey(pem);
    if (key.asymmetricKeyDetails?.namedCurve === CURVE_OF_KEYS) {
      return key;
    }
  } catch (error) {
    throw new AppError("APISERVER_TLS_INVALID", { reason: messageOf(error) }, { cause: error });
  }
  throw new AppError("APISERVER_TLS_INVALID", { reason: `the key for tokens is not on ${CURVE}` });
}

function newKey(): KeyObject {
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

/** Signs with one key; believes only what was signed with it. */
export class TokenSigner {
  readonly #privateKey: KeyObject;
  readonly #publicKey: KeyObject;
  readonly #keyId: string;
  readonly #known = new Map<string, Fields>();

  /**
   * `keyPem`: P-256, PKCS #8; absent: a new key.
   * @throws AppError with APISERVER_TLS_INVALID where it is no such key.
   */
  constructor(keyPem: string | undefined) {
    this.#privateKey = keyPem === undefined ? newKey() : loadKey(keyPem);
    this.#publicKey = createPublicKey(this.#privateKey);
    const der = this.#publicKey.export({ type: "spki", format: "der" });
    this.#keyId = createHash("sha256").update(der).digest("base64url");
  }

  async sign(claims: Fields): Promise<string> {
    const { CompactSign } = await library();
    const payload = new TextEncoder().encode(JSON.stringify(claims));
    return new CompactSign(payload)
      .setProtectedHeader({ alg: ALGORITHM, kid: this.#keyId })
      .sign(this.#privateKey);
  }

  /** What a token claims; undefined where it was not signed here. */
  async verify(token: string): Promise<Fields | undefined> {
    const known = this.#known.get(token);
    if (known !== undefined) {
      return known;
    }
    const claims = await this.#verifyNew(token);
    if (claims !== undefined) {
      if (this.#known.size >= REMEMBERED_MAX) {
        this.#known.clear();
      }
      this.#known.set(token, claims);
    }
    return claims;
  }

  /** The public key for others who check. Source: RFC 7517. */
  async publicKeys(): Promise<readonly Jose.JWK[]> {
    const { exportJWK } = await library();
    const key = await exportJWK(this.#publicKey);
    return [{ use: "sig", ...key, kid: this.#keyId, alg: ALGORITHM }];
  }

  async #verifyNew(token: string): Promise<Fields | undefined> {
    const { compactVerify, errors } = await library();
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
