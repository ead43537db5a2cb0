// SPDX-License-Identifier: Apache-2.0
// Signs with ECDSA on P-256 and SHA-256, as cosign and openssl verify it. The nonce is computed from key and message, so
// that a repeated release has the same signature; Node.js signs with a random nonce. Source: RFC 6979, section 3.2.
import {
  createECDH,
  createHmac,
  createPrivateKey,
  createPublicKey,
  verify,
  type KeyObject,
} from "node:crypto";
import { sha256 } from "./release.ts";

/** Order of the group of P-256. Source: SEC 2, section 2.4.2. */
const ORDER = 0xffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551n;
const BYTES = 32;
const CURVE = "prime256v1";

function toNumber(bytes: Buffer): bigint {
  return BigInt(`0x${bytes.toString("hex")}`);
}

function toBytes(value: bigint): Buffer {
  return Buffer.from(value.toString(16).padStart(2 * BYTES, "0"), "hex");
}

/** Inverse modulo the order, by Fermat's little theorem, because the order is prime. */
function invert(value: bigint): bigint {
  let result = 1n;
  let square = value % ORDER;
  for (let exponent = ORDER - 2n; exponent > 0n; exponent >>= 1n) {
    if ((exponent & 1n) === 1n) result = (result * square) % ORDER;
    square = (square * square) % ORDER;
  }
  return result;
}

/** Generates nonces until one is usable. */
function* generateNonces(secret: Buffer, hash: Buffer): Generator<bigint> {
  let key = Buffer.alloc(BYTES, 0);
  let value = Buffer.alloc(BYTES, 1);
  const update = (...parts: readonly Buffer[]): void => {
    key = createHmac("sha256", key)
      .update(Buffer.concat([value, ...parts]))
      .digest();
    value = createHmac("sha256", key).update(value).digest();
  };
  const reduced = toBytes(toNumber(hash) % ORDER);
  update(Buffer.of(0), secret, reduced);
  update(Buffer.of(1), secret, reduced);
  for (;;) {
    value = createHmac("sha256", key).update(value).digest();
    const nonce = toNumber(value);
    if (nonce > 0n && nonce < ORDER) yield nonce;
    update(Buffer.of(0));
  }
}

/** x coordinate of the multiple of the base point, modulo the order. */
function multiplyBase(factor: bigint): bigint {
  const point = createECDH(CURVE);
  point.setPrivateKey(toBytes(factor));
  return toNumber(point.getPublicKey().subarray(1, 1 + BYTES)) % ORDER;
}

/** DER of one positive integer. */
function encodeInteger(value: bigint): Buffer {
  const digits = value.toString(16);
  const bytes = Buffer.from(digits.padStart(digits.length + (digits.length % 2), "0"), "hex");
  const content = (bytes[0] ?? 0) >= 0x80 ? Buffer.concat([Buffer.of(0), bytes]) : bytes;
  return Buffer.concat([Buffer.of(0x02, content.length), content]);
}

/** Returns the signature in DER. */
export function sign(key: KeyObject, message: string): Buffer {
  const secret = Buffer.from(key.export({ format: "jwk" }).d ?? "", "base64url");
  const hash = Buffer.from(sha256(message), "hex");
  for (const nonce of generateNonces(secret, hash)) {
    const r = multiplyBase(nonce);
    const s = (invert(nonce) * (toNumber(hash) + r * toNumber(secret))) % ORDER;
    if (r === 0n || s === 0n) continue;
    const content = Buffer.concat([encodeInteger(r), encodeInteger(s)]);
    const signature = Buffer.concat([Buffer.of(0x30, content.length), content]);
    const isValid = verify("sha256", Buffer.from(message), createPublicKey(key), signature);
    if (!isValid) throw new Error("the signature does not match its own key");
    return signature;
  }
  throw new Error("no nonce was usable");
}

/** Reads a private key in PEM. @throws if it is no unencrypted key on P-256 */
export function parseKey(pem: string): KeyObject {
  const key = createPrivateKey(pem);
  const { asymmetricKeyType, asymmetricKeyDetails } = key;
  if (asymmetricKeyType === "ec" && asymmetricKeyDetails?.namedCurve === CURVE) return key;
  throw new Error("it is no EC key on the curve P-256");
}

export function printPublicKey(key: KeyObject): string {
  return createPublicKey(key).export({ type: "spki", format: "pem" }).toString();
}
