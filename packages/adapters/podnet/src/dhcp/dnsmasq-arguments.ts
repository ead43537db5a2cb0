// SPDX-License-Identifier: Apache-2.0
// The arguments with which dnsmasq gives a guest's NIC what was remembered of its pod NIC, and no other client anything.
// Why each option: docs/design/guest-addresses.md. Source: dnsmasq(8), 2.90.
import { parseIp, printAddress } from "@patchbay/api";
import { AppError, type NicRoute, type ServedNic } from "@patchbay/core";

const COMMON: readonly string[] = [
  "--keep-in-foreground",
  "--log-facility=-",
  "--quiet-dhcp",
  "--quiet-dhcp6",
  "--quiet-ra",
  "--conf-file=/dev/null",
  "--pid-file=",
  "--no-resolv",
  "--no-hosts",
  "--no-ping",
  "--port=0",
  "--except-interface=lo",
  "--bind-interfaces",
  "--dhcp-leasefile=/dev/null",
  "--leasefile-ro",
  "--dhcp-authoritative",
  "--dhcp-broadcast",
  "--dhcp-ignore=tag:!known",
];
/** Source: RFC 4861 section 6.2.1, AdvDefaultLifetime. Seconds. */
const ROUTER_LIFETIME = 9000;
/** Least MTU of IPv6; where a link has less, the guest is not told of it. Source: RFC 8200 section 5 */
const IPV6_MTU_MIN = 1280;
const HOSTNAME_OPTION = "12";
const BOOT_FILE_OPTION = "67";
const TFTP_SERVER_OPTION = "66";

interface Cidr {
  readonly address: string;
  readonly length: number;
}

function cidrOf(text: string): Cidr {
  const ip = parseIp(text);
  if (ip === undefined) {
    const reason = `${JSON.stringify(text)} is not an IP address`;
    throw new AppError("PODNET_ADDRESS_SERVER_FAILED", { reason });
  }
  return { address: printAddress(ip), length: ip.length };
}

function netmaskOf(length: number): string {
  const bits = length === 0 ? 0n : (0xffffffffn << BigInt(32 - length)) & 0xffffffffn;
  return printAddress({ version: 4, value: bits });
}

/** The NIC's name is the tag of what comes in by it. */
function option({ bridgeName }: ServedNic, ...words: readonly string[]): string {
  return `--dhcp-option=${[`tag:${bridgeName}`, ...words].join(",")}`;
}

/** All routes in one option; who understands it ignores the other. A route on the link has gateway 0.0.0.0. Source: RFC 3442 */
function routeOptions(nic: ServedNic, routes: readonly NicRoute[]): readonly string[] {
  const words = routes.flatMap(({ destination, gateway = "0.0.0.0" }) => [destination, gateway]);
  const router = routes.find(({ destination }) => destination === "0.0.0.0/0")?.gateway;
  const classless =
    words.length === 0 ? [] : [option(nic, "option:classless-static-route", ...words)];
  // Without a value it is not sent; unsaid, dnsmasq would name itself.
  return [option(nic, "option:router", ...(router === undefined ? [] : [router])), ...classless];
}

/** As bytes, whatever is in it: dnsmasq would read a text as a number or an address. One byte is written as a number. */
function rawValue(value: string): string {
  const bytes = [...Buffer.from(value, "utf8")];
  if (bytes.length === 1) return String(bytes[0] ?? 0);
  return bytes.map((byte) => byte.toString(16).padStart(2, "0")).join(":");
}

function askedOptions(nic: ServedNic): readonly string[] {
  const {
    bootFileName = "",
    tftpServerName = "",
    ntpServers = [],
    privateOptions = [],
  } = nic.options;
  return [
    ...(bootFileName === "" ? [] : [option(nic, BOOT_FILE_OPTION, bootFileName)]),
    ...(tftpServerName === "" ? [] : [option(nic, TFTP_SERVER_OPTION, tftpServerName)]),
    ...(ntpServers.length === 0 ? [] : [option(nic, "option:ntp-server", ...ntpServers)]),
    ...privateOptions.map(({ option: number, value }) =>
      option(nic, String(number), rawValue(value)),
    ),
  ];
}

function dnsOptions(nic: ServedNic, version: 4 | 6): readonly string[] {
  const own = nic.dns.nameservers.filter((server) => parseIp(server)?.version === version);
  const servers = version === 4 ? own : own.map((server) => `[${server}]`);
  const name = version === 4 ? "option" : "option6";
  const search = nic.dns.search.map((domain) => domain.replace(/\.$/, ""));
  return [
    ...(servers.length === 0 ? [] : [option(nic, `${name}:dns-server`, ...servers)]),
    ...(search.length === 0 ? [] : [option(nic, `${name}:domain-search`, ...search)]),
  ];
}

function ipv4Arguments(nic: ServedNic): readonly string[] {
  const { ipv4 } = nic.lease;
  if (ipv4 === undefined) return [];
  const { address, length } = cidrOf(ipv4.address);
  const [domain] = nic.dns.search;
  return [
    // The bridge's address is in no subnet of the guest's.
    `--shared-network=${nic.bridgeName},${address}`,
    `--dhcp-range=${address},static,${netmaskOf(length)},infinite`,
    option(nic, HOSTNAME_OPTION, nic.hostname),
    option(nic, "option:mtu", String(nic.mtu)),
    ...(domain === undefined ? [] : [option(nic, "option:domain-name", domain.replace(/\.$/, ""))]),
    ...routeOptions(nic, ipv4.routes),
    ...dnsOptions(nic, 4),
    ...askedOptions(nic),
  ];
}

function ipv6Arguments(nic: ServedNic): readonly string[] {
  const { ipv6 } = nic.lease;
  if (ipv6 === undefined) return [];
  const ranges = ipv6.addresses.map(({ server, isOnLink }) => {
    const { address, length } = cidrOf(server);
    const offLink = isOnLink ? [] : ["off-link"];
    return `--dhcp-range=${[address, "static", ...offLink, String(length), "infinite"].join(",")}`;
  });
  const mtu = nic.mtu < IPV6_MTU_MIN ? "off" : String(nic.mtu);
  const lifetime = String(ipv6.isRouter ? ROUTER_LIFETIME : 0);
  return [
    ...new Set(ranges),
    `--ra-param=${nic.bridgeName},mtu:${mtu},0,${lifetime}`,
    ...dnsOptions(nic, 6),
  ];
}

function hostArgument({ mac, lease }: ServedNic): string {
  const ipv4 = lease.ipv4 === undefined ? [] : [cidrOf(lease.ipv4.address).address];
  const ipv6 = (lease.ipv6?.addresses ?? []).map(({ address }) => `[${cidrOf(address).address}]`);
  return `--dhcp-host=${[mac, ...ipv4, ...ipv6, "infinite"].join(",")}`;
}

/** Names, MACs and hostnames stand between commas. */
const WORD = /^[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?$/;

function assertWords({ bridgeName, mac, hostname }: ServedNic): void {
  const bad = [bridgeName, mac, hostname].find((word) => !WORD.test(word));
  if (bad === undefined) return;
  const reason = `${JSON.stringify(bad)} is not a valid word of a DHCP option`;
  throw new AppError("PODNET_ADDRESS_SERVER_FAILED", { reason });
}

/**
 * Arguments of dnsmasq for one NIC. With a single interface dnsmasq binds its sockets to that device, so that servers of
 * other NICs in the same namespace do not receive its requests.
 * @throws AppError with PODNET_ADDRESS_SERVER_FAILED for what is no name or address
 */
export function dnsmasqArguments(nic: ServedNic): readonly string[] {
  assertWords(nic);
  return [
    ...COMMON,
    ...(nic.lease.ipv6 === undefined ? [] : ["--enable-ra"]),
    `--interface=${nic.bridgeName}`,
    hostArgument(nic),
    ...ipv4Arguments(nic),
    ...ipv6Arguments(nic),
  ];
}
