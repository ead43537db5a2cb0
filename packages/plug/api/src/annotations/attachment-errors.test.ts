// SPDX-License-Identifier: Apache-2.0
import { describe, expect, test } from "vitest";
import { parseAttachmentErrors, printAttachmentErrors } from "./attachment-errors.ts";

const BLUE = { reason: "NetworkNotFound", message: "there is no such network" };
const GREEN = { reason: "CniFailed", message: "the plugin said no" };

test("is written sorted by NIC and read again", () => {
  const text = printAttachmentErrors(
    new Map([
      ["podb", BLUE],
      ["podc", BLUE],
      ["poda", GREEN],
    ]),
  );
  expect(text).toBe(
    `{"poda":${JSON.stringify(GREEN)},"podb":${JSON.stringify(BLUE)},"podc":${JSON.stringify(BLUE)}}`,
  );
  expect(parseAttachmentErrors(text)).toEqual({ poda: GREEN, podb: BLUE, podc: BLUE });
});

test("is taken away when nothing fails", () => {
  expect(printAttachmentErrors(new Map())).toBeUndefined();
});

describe("what cannot be read says nothing", () => {
  test.each([
    { text: undefined, errors: {} },
    { text: "", errors: {} },
    { text: "{", errors: {} },
    { text: "null", errors: {} },
    { text: JSON.stringify([BLUE]), errors: {} },
    {
      text: JSON.stringify({
        poda: BLUE,
        podb: "no",
        podc: null,
        podd: { reason: "Why" },
        pode: { message: "so" },
        podf: { reason: 1, message: "so" },
        podg: { reason: "Why", message: 1 },
      }),
      errors: { poda: BLUE },
    },
  ])("$text", ({ text, errors }) => {
    expect(parseAttachmentErrors(text)).toEqual(errors);
  });
});
