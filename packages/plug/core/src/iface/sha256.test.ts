// SPDX-License-Identifier: Apache-2.0
// Is it the hash that everybody else computes, whatever the text?
import { hash } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import { sha256Hex } from "./sha256.ts";

test("the hash of a text is that of its UTF-8", () => {
  expect(sha256Hex("")).toBe("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  const texts = fc.string({ unit: "grapheme", maxLength: 300 });
  fc.assert(
    fc.property(texts, (text) => {
      expect(sha256Hex(text)).toBe(hash("sha256", text, "hex"));
    }),
  );
});
