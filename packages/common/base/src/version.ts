// SPDX-License-Identifier: Apache-2.0
// Generated from the root's package.json; do not edit. Run: npm run gen
export const VERSION = "0.2.0";
