// SPDX-License-Identifier: Apache-2.0
// Lets pure code accept abort signals without the DOM's types. Source: DOM Standard 3.2, as in Node.js.

/* oxlint-disable-next-line typescript/no-empty-object-type -- Node.js declares the members */
interface AbortSignal {}
