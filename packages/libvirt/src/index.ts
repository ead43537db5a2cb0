// SPDX-License-Identifier: Apache-2.0
// The public door of libvirt.
export { createHypervisor, type HypervisorOptions } from "./hypervisor.ts";
