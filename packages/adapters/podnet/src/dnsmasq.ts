// SPDX-License-Identifier: Apache-2.0
// Serves DHCP and router advertisements to one guest NIC with dnsmasq, in the pod's network namespace under a
// separate user.
import { parseIp, printAddress } from "@patchbay/api/values";
import { AppError, messageOf } from "@patchbay/base";
import type { NicRoute, ServedNic } from "@patchbay/core/nics";
import type {
  AddressServer,
  AddressServers,
  NetnsHandle,
  ProcessRunner,
} from "@patchbay/core/interfaces";

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
/** Longest router lifetime, in seconds. Source: RFC 4861 section 6.2.1, AdvDefaultLifetime */
const ROUTER_LIFETIME_SECONDS = 9000;
/** Minimum MTU of IPv6; smaller link MTUs are not advertised. Source: RFC 8200 section 5 */
const IPV6_MTU_MIN = 1280;
const HOSTNAME_OPTION = "12";
const BOOT_FILE_OPTION = "67";
const TFTP_SERVER_OPTION = "66";

interface Cidr {
  readonly address: string;
  readonly length: number;
}

function parseCidr(text: string): Cidr {
  const ip = parseIp(text);
  if (ip === undefined) {
    const reason = `${JSON.stringify(text)} is not an IP address`;
    throw new AppError("PODNET_ADDRESS_SERVER_FAILED", { reason });
  }
  return { address: printAddress(ip), length: ip.length };
}

function netmaskText(length: number): string {
  const bits = length === 0 ? 0n : (0xffffffffn << BigInt(32 - length)) & 0xffffffffn;
  return printAddress({ version: 4, value: bits });
}

/** Returns a DHCP option for one NIC; dnsmasq tags requests with the interface that received them. */
function dhcpOption({ bridgeName }: ServedNic, ...values: readonly string[]): string {
  return `--dhcp-option=${[`tag:${bridgeName}`, ...values].join(",")}`;
}

/** Returns the router option, and all routes in another option, which clients prefer if they know it. Source: RFC 3442 */
function routeOptions(nic: ServedNic, routes: readonly NicRoute[]): readonly string[] {
  const values = routes.flatMap(({ destination, gateway = "0.0.0.0" }) => [destination, gateway]);
  const router = routes.find(({ destination }) => destination === "0.0.0.0/0")?.gateway;
  const classless =
    values.length === 0 ? [] : [dhcpOption(nic, "option:classless-static-route", ...values)];
  // An empty router option announces no router. Without the option, dnsmasq would announce itself.
  return [
    dhcpOption(nic, "option:router", ...(router === undefined ? [] : [router])),
    ...classless,
  ];
}

/** Prints hexadecimal bytes, because dnsmasq would parse text as a number or an address; a single byte as a number. */
function rawValue(value: string): string {
  const bytes = [...Buffer.from(value, "utf8")];
  if (bytes.length === 1) return String(bytes[0] ?? 0);
  return bytes.map((byte) => byte.toString(16).padStart(2, "0")).join(":");
}

function requestedOptions(nic: ServedNic): readonly string[] {
  const {
    bootFileName = "",
    tftpServerName = "",
    ntpServers = [],
    privateOptions = [],
  } = nic.options;
  return [
    ...(bootFileName === "" ? [] : [dhcpOption(nic, BOOT_FILE_OPTION, bootFileName)]),
    ...(tftpServerName === "" ? [] : [dhcpOption(nic, TFTP_SERVER_OPTION, tftpServerName)]),
    ...(ntpServers.length === 0 ? [] : [dhcpOption(nic, "option:ntp-server", ...ntpServers)]),
    ...privateOptions.map(({ option: number, value }) =>
      dhcpOption(nic, String(number), rawValue(value)),
    ),
  ];
}

function dnsOptions(nic: ServedNic, version: 4 | 6): readonly string[] {
  const own = nic.dns.nameservers.filter((server) => parseIp(server)?.version === version);
  const servers = version === 4 ? own : own.map((server) => `[${server}]`);
  const name = version === 4 ? "option" : "option6";
  const search = nic.dns.search.map((domain) => domain.replace(/\.$/, ""));
  return [
    ...(servers.length === 0 ? [] : [dhcpOption(nic, `${name}:dns-server`, ...servers)]),
    ...(search.length === 0 ? [] : [dhcpOption(nic, `${name}:domain-search`, ...search)]),
  ];
}

function ipv4Arguments(nic: ServedNic): readonly string[] {
  const { ipv4 } = nic.lease;
  if (ipv4 === undefined) return [];
  const { address, length } = parseCidr(ipv4.address);
  const [domain] = nic.dns.search;
  return [
    // Links the range to the bridge, whose own address is in none of the guest's subnets.
    `--shared-network=${nic.bridgeName},${address}`,
    `--dhcp-range=${address},static,${netmaskText(length)},infinite`,
    dhcpOption(nic, HOSTNAME_OPTION, nic.hostname),
    dhcpOption(nic, "option:mtu", String(nic.mtu)),
    ...(domain === undefined
      ? []
      : [dhcpOption(nic, "option:domain-name", domain.replace(/\.$/, ""))]),
    ...routeOptions(nic, ipv4.routes),
    ...dnsOptions(nic, 4),
    ...requestedOptions(nic),
  ];
}

function ipv6Arguments(nic: ServedNic): readonly string[] {
  const { ipv6 } = nic.lease;
  if (ipv6 === undefined) return [];
  const ranges = ipv6.addresses.map(({ server, isOnLink }) => {
    const { address, length } = parseCidr(server);
    const offLink = isOnLink ? [] : ["off-link"];
    return `--dhcp-range=${[address, "static", ...offLink, String(length), "infinite"].join(",")}`;
  });
  const mtu = nic.mtu < IPV6_MTU_MIN ? "off" : String(nic.mtu);
  const lifetime = String(ipv6.isRouter ? ROUTER_LIFETIME_SECONDS : 0);
  return [
    ...new Set(ranges),
    `--ra-param=${nic.bridgeName},mtu:${mtu},0,${lifetime}`,
    ...dnsOptions(nic, 6),
  ];
}

function hostArgument({ mac, lease }: ServedNic): string {
  const ipv4 = lease.ipv4 === undefined ? [] : [parseCidr(lease.ipv4.address).address];
  const ipv6 = (lease.ipv6?.addresses ?? []).map(
    ({ address }) => `[${parseCidr(address).address}]`,
  );
  return `--dhcp-host=${[mac, ...ipv4, ...ipv6, "infinite"].join(",")}`;
}

const OPTION_VALUE = /^[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?$/;

function assertOptionValues({ bridgeName, mac, hostname }: ServedNic): void {
  const bad = [bridgeName, mac, hostname].find((value) => !OPTION_VALUE.test(value));
  if (bad === undefined) return;
  const reason = `${JSON.stringify(bad)} is not a valid word of a DHCP option`;
  throw new AppError("PODNET_ADDRESS_SERVER_FAILED", { reason });
}

/**
 * Returns dnsmasq's arguments for one NIC; docs/design/guest-addresses.md explains each. With a single interface
 * dnsmasq binds its sockets to that device, so that servers of other NICs in the same namespace do not receive its
 * requests. Source: dnsmasq(8), 2.90
 * @throws AppError with PODNET_ADDRESS_SERVER_FAILED if a name or address is invalid
 */
export function dnsmasqArguments(nic: ServedNic): readonly string[] {
  assertOptionValues(nic);
  return [
    ...COMMON,
    ...(nic.lease.ipv6 === undefined ? [] : ["--enable-ra"]),
    `--interface=${nic.bridgeName}`,
    hostArgument(nic),
    ...ipv4Arguments(nic),
    ...ipv6Arguments(nic),
  ];
}

interface AddressServersOptions {
  readonly runner: ProcessRunner;
  /** Process family, the same after a restart of this process, so that leftover servers can be killed. */
  readonly family: string;
}

/** Longest delay of a timer, after which the server is restarted as after a crash. Source: Node.js, setTimeout */
const LIFETIME_MAX_MS = 2_147_483_647;
const LISTENING_MESSAGE = "started, version";
const OUTPUT_MAX = 2000;

/**
 * Unassigned user IDs, one per server, so that a compromised server can neither trace nor kill another. Each network
 * namespace has a block of them, selected by its inode. Inodes of namespaces begin at FIRST_INODE.
 * Source: systemd, UIDS-GIDS.md; linux/proc_ns.h
 */
const FIRST_UID = 0x7000_0000;
const FIRST_INODE = 0xf000_0000;
const UIDS_PER_NAMESPACE = 256;
const NAMESPACES = 0x10_0000;

class UserPool {
  readonly #usedUids = new Map<string, Set<number>>();

  /** Assigns the first free user of the namespace. Servers share users once the block is used up. */
  assign({ inode }: NetnsHandle): { readonly user: string; readonly release: () => void } {
    const usedUids = this.#usedUids.get(inode) ?? new Set();
    this.#usedUids.set(inode, usedUids);
    let slot = 0;
    while (usedUids.has(slot)) slot += 1;
    usedUids.add(slot);
    const block = Math.max(Number(inode) - FIRST_INODE, 0) % NAMESPACES;
    const user = FIRST_UID + block * UIDS_PER_NAMESPACE + (slot % UIDS_PER_NAMESPACE);
    return {
      user: String(user),
      release: () => {
        usedUids.delete(slot);
        if (usedUids.size === 0 && this.#usedUids.get(inode) === usedUids)
          this.#usedUids.delete(inode);
      },
    };
  }
}

/** Capabilities for ports below 1024, router advertisements, and neighbor entries, which dnsmasq requires to start. */
const CAPABILITIES = "-all,+net_bind_service,+net_raw,+net_admin";

/**
 * The server's root file system has programs, libraries and two devices, and nothing else. The old root is detached
 * instead of covered: a mount namespace that lives as long as a VM would keep every currently mounted file system in
 * use, and claims of other VMs on them could be neither mounted again nor deleted.
 */
const ENTER_ROOT_SCRIPT = `mount -t tmpfs -o size=64k,mode=755 none /tmp && cd /tmp || exit
for place in bin etc lib lib32 lib64 libx32 sbin usr; do
  if [ -L "/$place" ]; then ln -s "$(readlink "/$place")" "$place"
  elif [ -d "/$place" ]; then mkdir "$place" && mount --bind "/$place" "$place"
  fi || exit
done
mkdir dev old proc && touch dev/null dev/urandom &&
mount --bind /dev/null dev/null && mount --bind /dev/urandom dev/urandom && mount --move /proc proc &&
pivot_root . old && cd / && umount -l old && rmdir old && mount -o remount,ro / || exit
exec "$@"`;
/** AppArmor may forbid mounts in a container; the server then uses the mounts of the agent's container. */
const ENTER_ROOT_IF_ALLOWED_SCRIPT = `unshare --mount sh -c 'mount -t tmpfs none /tmp && cd /tmp && mkdir old && exec pivot_root . old' 2>/dev/null || exec "$@"
exec unshare --mount --mount-proc sh -c '${ENTER_ROOT_SCRIPT}' sh "$@"`;

/** A server needs 12 MiB of address space and a few sockets. `--nproc` leaves room for a server that is still ending. */
const LIMITS = ["--as=67108864", "--nofile=256", "--nproc=4", "--fsize=0", "--core=0"] as const;

function buildCommand(user: string, nic: ServedNic): readonly [string, ...string[]] {
  return [
    ...(["nsenter", "--net=/proc/self/fd/3", "sh", "-c", 'exec "$@" 2>&1 3<&-', "sh"] as const),
    // dnsmasq is PID 1 of its own PID namespace and sees no other process. `unshare` waits outside, dies with the
    // agent, and kills it.
    "unshare",
    "--pid",
    "--ipc",
    "--fork",
    "--kill-child",
    "sh",
    "-c",
    ENTER_ROOT_IF_ALLOWED_SCRIPT,
    "sh",
    "prlimit",
    ...LIMITS,
    "setpriv",
    "--reuid",
    user,
    "--regid",
    user,
    "--clear-groups",
    "--no-new-privs",
    "--inh-caps",
    CAPABILITIES,
    "--ambient-caps",
    CAPABILITIES,
    "--bounding-set",
    CAPABILITIES,
    // A change of user clears the parent-death signal, so this sets it again.
    "--pdeathsig",
    "KILL",
    "dnsmasq",
    ...dnsmasqArguments(nic),
  ];
}

function serverFailed(reason: string): AppError {
  return new AppError("PODNET_ADDRESS_SERVER_FAILED", { reason });
}

function lastLine(output: string): string {
  return output.trim().split("\n").at(-1) ?? "";
}

interface ServerCommand {
  readonly argv: readonly [string, ...string[]];
  readonly release: () => void;
}

async function start(
  { runner, family }: AddressServersOptions,
  netns: NetnsHandle,
  { argv, release }: ServerCommand,
): Promise<AddressServer> {
  const listening = Promise.withResolvers<undefined>();
  const stop = new AbortController();
  let output = "";
  const onOutput = (text: string): void => {
    output = `${output}${text}`.slice(-OUTPUT_MAX);
    if (output.includes(LISTENING_MESSAGE)) listening.resolve(undefined);
  };
  const command = { argv, family, inheritFds: [netns], timeoutMs: LIFETIME_MAX_MS };
  const ended = runner.run({ ...command, signal: stop.signal, onOutput }).then(
    ({ exitCode }) => `exit code ${String(exitCode)}: ${lastLine(output)}`,
    (error: unknown) => (stop.signal.aborted ? "it was stopped" : messageOf(error)),
  );
  void ended.then(release);
  await Promise.race([
    listening.promise,
    ended.then((reason) => Promise.reject(serverFailed(reason))),
  ]);
  return {
    ended,
    stop: async () => {
      stop.abort(serverFailed("it was stopped"));
      await ended;
    },
  };
}

export function createDhcpServers(options: AddressServersOptions): AddressServers {
  const users = new UserPool();
  return {
    start: async (netns, nic) => {
      const { user, release } = users.assign(netns);
      try {
        return await start(options, netns, { argv: buildCommand(user, nic), release });
      } catch (error) {
        release();
        throw error;
      }
    },
    killLeftovers: () => options.runner.killFamily(options.family),
  };
}
