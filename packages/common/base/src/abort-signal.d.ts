// SPDX-License-Identifier: Apache-2.0
// Declares AbortSignal for packages that are compiled without the DOM's types. Source: DOM Standard 3.2.

/* oxlint-disable-next-line typescript/no-empty-object-type -- Node.js declares the members */
interface AbortSignal {}
