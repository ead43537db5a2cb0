// SPDX-License-Identifier: Apache-2.0
// Where an iface can be in its life, and what that is part of.

const PLUG_PHASES = ["Pending", "PodAttaching", "Wiring", "Attaching", "Ready"] as const;
const SWAP_PHASES = ["PodSwapping", "Switching"] as const;
const UNPLUG_PHASES = ["Detaching", "Unwiring", "PodDetaching"] as const;
/** All of them, in the order in which they pass. */
export const IFACE_PHASES = [...PLUG_PHASES, ...SWAP_PHASES, ...UNPLUG_PHASES] as const;
/** All of them. */
export const HOTPLUG_TYPES = ["Plug", "Swap", "Unplug"] as const;

/** Where one iface is in its life; derived by `phaseOf` in core, meanings in docs/reference/phases.md. */
export type IfacePhase = (typeof IFACE_PHASES)[number];

/** What a phase is part of: the NIC comes, changes its network, or goes. */
export type HotplugType = (typeof HOTPLUG_TYPES)[number];
