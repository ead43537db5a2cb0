// SPDX-License-Identifier: Apache-2.0
// DHCP requests of a guest, counted by nftables so that the count survives restarts of the DHCP server.

/** Matches requests of DHCP clients. Source: RFC 2131 section 4.1, RFC 8415 section 7.2 */
export const DHCP_REQUESTS = { ipv4: "udp dport 67", ipv6: "udp dport 547" } as const;

const COUNTED = /^\t\t.* udp dport (?:67|547) counter packets (\d+) bytes \d+(?: accept)?$/gm;

/** Sums the counters behind these matches in a table as `nft list` prints it. */
export function parseDhcpRequests(text: string): number {
  return [...text.matchAll(COUNTED)].reduce((sum, [, packets]) => sum + Number(packets), 0);
}
