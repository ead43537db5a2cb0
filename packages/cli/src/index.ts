// SPDX-License-Identifier: Apache-2.0
// Empty entry point: patchbay is a program, which no package imports.
export {};
