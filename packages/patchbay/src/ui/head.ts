// SPDX-License-Identifier: Apache-2.0
// What does the panel tell the browser to refuse? Headers of each answer. Pure.

/** Of pages and of what they load. */
export type Head = Readonly<Record<string, string>>;

/**
 * Scripts and styles of the panel's own files only, nothing from outside, in no frame. `nonce` lets the terminal's style
 * sheet in, which its library makes when a console is opened.
 * Source: CSP Level 3; Trusted Types
 */
function policyOf(nonce: string): string {
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

/** The head of an answer. */
export function headOf(type: string, nonce: string): Head {
  return {
    "content-type": type,
    "content-security-policy": policyOf(nonce),
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
  };
}
