// SPDX-License-Identifier: Apache-2.0
// Empty entry point, because no package imports patchbay.
export {};
