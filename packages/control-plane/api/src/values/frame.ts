// SPDX-License-Identifier: Apache-2.0

/** Bytes of a frame in addition to its payload: Ethernet header and two VLAN tags. Source: IEEE 802.3, 802.1ad */
const HEADER_BYTES = 22;

/** Returns the largest frame's size on a link, in bytes, without the frame check sequence. */
export function frameBytes(mtu: number): number {
  return mtu + HEADER_BYTES;
}
