// SPDX-License-Identifier: Apache-2.0
// Reads the files of the panel's page, and builds the headers of all responses.
import { AppError } from "@patchbay/base";
import type { Files } from "@patchbay/core/interfaces";
import { NONCE_MARK, PANEL_DIRECTORY, PANEL_FILES } from "@patchbay/panel";

type ResponseHeaders = Readonly<Record<string, string>>;

/** Builds the Content-Security-Policy. Permits the panel's own files, and styles with the nonce. Source: CSP Level 3; Trusted Types */
function buildPolicy(nonce: string): string {
  return [
    "default-src 'none'",
    "script-src 'self'",
    `style-src 'self' 'nonce-${nonce}'`,
    "img-src 'self' data:",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join("; ");
}

export function buildHeaders(type: string, nonce: string): ResponseHeaders {
  return {
    "content-type": type,
    "content-security-policy": buildPolicy(nonce),
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
  };
}

export interface PanelFile {
  readonly type: string;
  /** Returns the file's text with the nonce that the response's Content-Security-Policy permits. */
  render(nonce: string): string;
}

/** Reads all files of the page. Returns them by path. @throws AppError with PANEL_NOT_BUILT if a file is missing */
export async function readPage(
  files: Pick<Files, "readText">,
  directory: string = PANEL_DIRECTORY,
): Promise<ReadonlyMap<string, PanelFile>> {
  const read = async ([path, { file, type }]: (typeof ENTRIES)[number]) => {
    const text = await files.readText(`${directory}${file}`);
    if (text === undefined) throw new AppError("PANEL_NOT_BUILT", { path: `${directory}${file}` });
    const render = (nonce: string): string => text.replaceAll(NONCE_MARK, nonce);
    return [path, { type, render }] as const;
  };
  return new Map(await Promise.all(ENTRIES.map(read)));
}

const ENTRIES = Object.entries(PANEL_FILES);
