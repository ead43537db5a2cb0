// SPDX-License-Identifier: Apache-2.0
// Pure code may name what ends a wait, and do nothing with it. Source: DOM Standard 3.2, as Node.js has it.

/* oxlint-disable-next-line typescript/no-empty-object-type -- Node.js' own has the members */
interface AbortSignal {}
