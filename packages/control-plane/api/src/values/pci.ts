// SPDX-License-Identifier: Apache-2.0
/**
 * Syntax of a PCI address, for example 0000:02:00.0; the domain is optional. Source: KubeVirt pkg/util/hardware
 * ParsePciAddress.
 */
export const PCI_ADDRESS = /^([0-9a-f]{4}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$/i;

/** Source: docs/design/pci-topology.md */
export const PCIE_ROOT_PORTS_DEFAULT = 32;

/** Maximum number of PCIe root ports. Each port adds boot time. Source: docs/design/pci-topology.md */
export const PCIE_ROOT_PORTS_MAX = 128;
