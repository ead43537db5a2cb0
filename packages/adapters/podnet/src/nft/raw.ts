// SPDX-License-Identifier: Apache-2.0
// Bytes of a frame as the numbers that nft compares raw fields with, spelled as it prints them.

/** A MAC as twelve digits. */
export function macDigits(mac: string): string {
  return mac.replaceAll(":", "");
}

/** Hexadecimal digits as a number, which has no zeros in front. */
export function rawNumber(digits: string): string {
  return `0x${BigInt(`0x${digits}`).toString(16)}`;
}
