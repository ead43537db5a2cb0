// SPDX-License-Identifier: Apache-2.0
// The public door of patchbay: it is a program, nobody imports it.
export {};
