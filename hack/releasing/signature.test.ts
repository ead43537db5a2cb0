// SPDX-License-Identifier: Apache-2.0
import { execFileSync } from "node:child_process";
import { createPrivateKey, generateKeyPairSync } from "node:crypto";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { parseKey, printPublicKey, sign } from "./signature.ts";

const toBase64 = (hex: string): string => Buffer.from(hex, "hex").toString("base64url");

describe("examples of RFC 6979, A.2.5", () => {
  const key = createPrivateKey({
    format: "jwk",
    key: {
      kty: "EC",
      crv: "P-256",
      x: toBase64("60fed4ba255a9d31c961eb74c6356d68c049b8923b61fa6ce669622e60f29fb6"),
      y: toBase64("7903fe1008b8bc99a41ae9e95628bc64f2f1b20c2d7e9f5177a3c294d4462299"),
      d: toBase64("c9afa9d845ba75166b5c215767b1d6934e50c3db36e89b127b8a622b120f6721"),
    },
  });
  test.each([
    {
      message: "sample",
      r: "efd48b2aacb6a8fd1140dd9cd45e81d69d2c877b56aaf991c34d0ea84eaf3716",
      s: "f7cb1c942d657c41d436c7a1b6e29f65f3e900dbb9aff4064dc4ab2f843acda8",
    },
    {
      message: "test",
      r: "f1abb023518351cd71d881567b1ea663ed3efcf6c5132b354f28d3b0b7d38367",
      s: "019f4113742a2b14bd25926b49c649155f267e60d3814b4c0cc84250e46f0083",
    },
  ])("$message", ({ message, r, s }) => {
    const hex = sign(key, message).toString("hex");
    expect(hex).toContain(r);
    expect(hex.endsWith(s)).toBe(true);
  });
});

test("openssl verifies a signature, and rejects it for another message", () => {
  const directory = mkdtempSync(join(tmpdir(), "signature-"));
  try {
    const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
    const pem = privateKey.export({ type: "pkcs8", format: "pem" }).toString();
    const key = parseKey(pem);
    const write = (name: string, content: string | Buffer): string => {
      writeFileSync(join(directory, name), content);
      return join(directory, name);
    };
    const publicKey = write("key.pub", printPublicKey(key));
    const signature = write("signature", sign(key, "message"));
    const check = (message: string): string =>
      execFileSync(
        "openssl",
        ["dgst", "-sha256", "-verify", publicKey, "-signature", signature, write("file", message)],
        { encoding: "utf8" },
      );
    expect(check("message")).toBe("Verified OK\n");
    expect(() => check("other")).toThrow("openssl dgst");
  } finally {
    rmSync(directory, { recursive: true });
  }
});

test.each([
  { name: "on another curve", given: generateKeyPairSync("ec", { namedCurve: "P-384" }) },
  { name: "of another type", given: generateKeyPairSync("ed25519") },
])("a key $name is rejected", ({ given: { privateKey } }) => {
  const pem = privateKey.export({ type: "pkcs8", format: "pem" }).toString();
  expect(() => parseKey(pem)).toThrow("it is no EC key on the curve P-256");
});
