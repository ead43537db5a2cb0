// SPDX-License-Identifier: Apache-2.0
// How many ports for hot-plug does a VM have where nobody says, and how many may it ask for?

/** Costs 9 MiB, and little of a boot. Source: docs/design/pci-topology.md */
export const PCIE_ROOT_PORTS_DEFAULT = 32;

/** Each costs boot time. Source: docs/design/pci-topology.md */
export const PCIE_ROOT_PORTS_MAX = 128;
