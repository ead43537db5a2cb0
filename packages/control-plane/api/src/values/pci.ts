// SPDX-License-Identifier: Apache-2.0
const PCI_ADDRESS = /^([0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$/i;

/**
 * Checks the syntax of a PCI address, for example 0000:02:00.0; the domain is optional. Source: KubeVirt pkg/util/hardware ParsePciAddress.
 */
export function isPciAddress(text: string): boolean {
  return PCI_ADDRESS.test(text);
}

/** Source: docs/design/pci-topology.md */
export const PCIE_ROOT_PORTS_DEFAULT = 32;

/** Maximum number of PCIe root ports. Each port adds boot time. Source: docs/design/pci-topology.md */
export const PCIE_ROOT_PORTS_MAX = 128;
