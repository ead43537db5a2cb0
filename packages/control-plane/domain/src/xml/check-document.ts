// SPDX-License-Identifier: Apache-2.0
// Checks of untrusted XML before parsing.
import { SyntaxValidator } from "fast-xml-validator";

/** In characters; a domain with 128 ports and NICs has less than 200 000. */
const MAX_LENGTH = 256 * 1024;
/** In characters; a reason may quote the document. */
const REASON_MAX = 200;

/** @throws Error when the document is too long, has a DOCTYPE or is not well formed */
export function checkDocument(xml: string): void {
  if (xml.length > MAX_LENGTH) throw new Error("it is too long");
  if (/<!DOCTYPE/i.test(xml)) throw new Error("it has a DOCTYPE");
  // The parsers accept malformed documents.
  SyntaxValidator.validate(xml);
}

/** Every error of the libraries, including a stack overflow, is a fault of the document. */
export function reasonOf(error: unknown): string {
  const reason = error instanceof Error ? error.message : "it is not well-formed";
  return reason.slice(0, REASON_MAX);
}
