// SPDX-License-Identifier: Apache-2.0
// Sends large documents that clients keep: with a tag, compressed where that is wanted, and not again where nothing changed.
import { createHash } from "node:crypto";
import { gzipSync } from "node:zlib";
import type { Request, Response } from "express";

/** Below this many bytes compression costs more than it saves. */
const GZIP_MIN_BYTES = 1024;

function tagOf(content: Buffer): string {
  return `"${createHash("sha256").update(content).digest("hex").slice(0, 32).toUpperCase()}"`;
}

function isKnown(request: Request, tag: string): boolean {
  const known = (request.headers["if-none-match"] ?? "").split(",").map((entry) => entry.trim());
  return known.some((entry) => entry === "*" || entry.replace(/^W\//, "") === tag);
}

/** Sends the content, or 304 where the client has it. */
export function sendDocument(
  request: Request,
  response: Response,
  document: { readonly contentType: string; readonly content: Buffer },
): void {
  const { contentType, content } = document;
  const tag = tagOf(content);
  response.setHeader("etag", tag);
  response.setHeader("vary", "Accept-Encoding, Accept");
  if (isKnown(request, tag)) {
    response.status(304).end();
    return;
  }
  response.setHeader("content-type", contentType);
  const compress = content.length >= GZIP_MIN_BYTES && request.acceptsEncodings("gzip") === "gzip";
  if (compress) {
    response.setHeader("content-encoding", "gzip");
  }
  const sent = compress ? gzipSync(content) : content;
  response.setHeader("content-length", sent.length);
  response.end(sent);
}
