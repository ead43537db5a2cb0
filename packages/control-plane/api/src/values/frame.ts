// SPDX-License-Identifier: Apache-2.0

/** Bytes of a frame in addition to its payload: Ethernet header and two VLAN tags. Source: IEEE 802.3, 802.1ad */
const HEADER_BYTES = 22;

/** Returns the size of the largest frame on a link with this MTU, in bytes, without the frame check sequence. */
export function frameBytes(mtu: number): number {
  return mtu + HEADER_BYTES;
}
