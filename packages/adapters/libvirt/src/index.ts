// SPDX-License-Identifier: Apache-2.0
// The public door of libvirt.
export { createHypervisor } from "./hypervisor.ts";
