// SPDX-License-Identifier: Apache-2.0
// Which documents are not even looked into, and why one was refused.
import { SyntaxValidator } from "fast-xml-validator";

/** Characters; a domain with 128 ports and NICs has under 200 000. */
const MAX_LENGTH = 256 * 1024;
/** Characters of a reason, which may hold some of the document. */
const REASON_MAX = 200;

/** @throws Error in words for what is too long, has a DOCTYPE or is not well formed */
export function checkDocument(xml: string): void {
  if (xml.length > MAX_LENGTH) throw new Error("it is too long");
  if (/<!DOCTYPE/i.test(xml)) throw new Error("it has a DOCTYPE");
  // The parsers are lenient; this is not.
  SyntaxValidator.validate(xml);
}

/** Whatever the libraries throw, the stack that they use up included, is the document's fault. */
export function reasonOf(error: unknown): string {
  const reason = error instanceof Error ? error.message : "it is not well-formed";
  return reason.slice(0, REASON_MAX);
}
