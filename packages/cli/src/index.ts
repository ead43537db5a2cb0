// SPDX-License-Identifier: Apache-2.0
// Entry point without exports, because no other package imports this package.
export {};
