// SPDX-License-Identifier: Apache-2.0
// The public door of cri.
export { DEFAULT_CRI_ENDPOINTS } from "./endpoints.ts";
