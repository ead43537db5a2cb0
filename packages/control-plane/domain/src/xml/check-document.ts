// SPDX-License-Identifier: Apache-2.0
// Checks untrusted XML before it is parsed.
import { SyntaxValidator } from "fast-xml-validator";

/** Maximum length of a document, in characters; a domain with 128 ports and NICs has less than 200 000. */
const MAX_LENGTH = 256 * 1024;
/** Maximum length of a reason, in characters, because a reason may quote the document. */
const MAX_REASON_LENGTH = 200;

/** @throws Error when the document is too long, has a DOCTYPE or is not well formed */
export function checkDocument(xml: string): void {
  if (xml.length > MAX_LENGTH) throw new Error("it is too long");
  if (/<!DOCTYPE/i.test(xml)) throw new Error("it has a DOCTYPE");
  // The parsers accept malformed documents, so a validator checks them first.
  SyntaxValidator.validate(xml);
}

/** Returns why the document was rejected. Any error of a parser counts as a fault of the document, even a stack overflow. */
export function describeParseError(error: unknown): string {
  const reason = error instanceof Error ? error.message : "it is not well-formed";
  return reason.slice(0, MAX_REASON_LENGTH);
}
