// SPDX-License-Identifier: Apache-2.0
// Signatures of tokens, and the keys that make them.
import { createPrivateKey, generateKeyPairSync } from "node:crypto";
import { CompactSign } from "jose";
import { describe, expect, test } from "vitest";
import { TokenSigner } from "./token-signer.ts";

function ecKey(namedCurve: string): string {
  const { privateKey } = generateKeyPairSync("ec", { namedCurve });
  return privateKey.export({ type: "pkcs8", format: "pem" }).toString();
}

test.each([
  { name: "invalid PEM", key: "x" },
  { name: "an unsupported curve", key: ecKey("P-384") },
])("rejects a key of $name", ({ key }) => {
  expect(() => new TokenSigner(key)).toThrow(
    expect.objectContaining({ code: "APISERVER_TLS_INVALID" }),
  );
});

test("names an unsupported curve in the error", () => {
  expect(() => new TokenSigner(ecKey("P-384"))).toThrow("the key for tokens is not on P-256");
});

describe("a signer", () => {
  const pem = ecKey("P-256");

  test("accepts tokens signed with its key, also from before a restart", async () => {
    const token = await new TokenSigner(pem).sign({ a: 1 });
    const signer = new TokenSigner(pem);
    const claims = await signer.verify(token);
    expect(claims).toEqual({ a: 1 });
    expect(await signer.verify(token)).toBe(claims);
  });

  test("rejects other keys, modified tokens and text that is not a token", async () => {
    const signer = new TokenSigner(undefined);
    const own = await signer.sign({ a: 1 });
    const foreign = await new TokenSigner(pem).sign({ a: 1 });
    const [head = "", , signature = ""] = own.split(".");
    const changed = `${head}.${Buffer.from('{"a":2}').toString("base64url")}.${signature}`;
    for (const token of [foreign, changed, "x", "", "a.b.c"]) {
      expect(await signer.verify(token)).toBeUndefined();
    }
  });

  test("rejects claims that are not an object", async () => {
    const signer = new TokenSigner(pem);
    for (const text of ["[1]", "1", "{"]) {
      const token = await new CompactSign(new TextEncoder().encode(text))
        .setProtectedHeader({ alg: "ES256" })
        .sign(createPrivateKey(pem));
      expect(await signer.verify(token)).toBeUndefined();
    }
  });

  test("publishes its public key only", async () => {
    const signer = new TokenSigner(pem);
    const [key] = await signer.publicKeys();
    const [head = ""] = (await signer.sign({})).split(".");
    const header = JSON.parse(Buffer.from(head, "base64url").toString()) as Record<string, unknown>;
    expect(header).toEqual({ alg: "ES256", kid: key?.kid });
    expect(key).toMatchObject({ use: "sig", alg: "ES256", kty: "EC", crv: "P-256" });
    expect(key?.d).toBeUndefined();
  });
});
