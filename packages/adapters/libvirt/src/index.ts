// SPDX-License-Identifier: Apache-2.0
export { createHypervisor } from "./hypervisor.ts";
