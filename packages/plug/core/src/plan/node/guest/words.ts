// SPDX-License-Identifier: Apache-2.0
// Words that fields of the guest take, as KubeVirt and libvirt have them.

/** Source: libvirt formatdomain, "CPU model and topology". */
export const CPU_POLICIES = ["force", "require", "optional", "disable", "forbid"] as const;
/** Source: KubeVirt HPETTickPolicy, PITTickPolicy and RTCTickPolicy. */
export const TICK_POLICIES = ["delay", "catchup", "merge", "discard"] as const;
/** Source: KubeVirt RTCTimerTrack. */
export const TRACKS = ["guest", "wall"] as const;
/** Source: KubeVirt WatchdogAction. */
export const WATCHDOG_ACTIONS = ["reset", "poweroff", "shutdown"] as const;
/** Cards that the launcher has the firmware for. Source: libvirt formatdomain, "Video devices". */
export const VIDEO_MODELS = ["vga", "bochs", "cirrus", "virtio"] as const;
/** The word, if it is one of these. */
export function wordOf<T extends string>(
  words: readonly T[],
  word: string | undefined,
): T | undefined {
  return words.find((each) => each === word);
}
