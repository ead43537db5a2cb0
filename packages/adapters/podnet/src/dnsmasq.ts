// SPDX-License-Identifier: Apache-2.0
// Serves DHCP and router advertisements to guest NICs. Each NIC has its own dnsmasq process, with a separate user ID,
// in the pod's network namespace.
import { parseIp, printAddress } from "@patchbay/api/values";
import { AppError, messageOf } from "@patchbay/base";
import type { NicRoute, ServedNic } from "@patchbay/core/nics";
import type {
  AddressServer,
  AddressServers,
  Namespaces,
  NetnsHandle,
  OpenNetns,
  ProcessRunner,
} from "@patchbay/core/interfaces";

const COMMON_ARGUMENTS: readonly string[] = [
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
/** Maximum lifetime of a default router in router advertisements, in seconds. Source: RFC 4861 section 6.2.1, AdvDefaultLifetime */
const ROUTER_LIFETIME_SECONDS = 9000;
/** Minimum MTU of IPv6. A smaller link MTU is not advertised. Source: RFC 8200 section 5 */
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

function printNetmask(length: number): string {
  const bits = length === 0 ? 0n : (0xffffffffn << BigInt(32 - length)) & 0xffffffffn;
  return printAddress({ version: 4, value: bits });
}

function buildDhcpOption({ bridgeName }: ServedNic, ...values: readonly string[]): string {
  return `--dhcp-option=${[`tag:${bridgeName}`, ...values].join(",")}`;
}

/** Returns the router option, and the classless static route option, which newer clients prefer. Source: RFC 3442 */
function buildRouteOptions(nic: ServedNic, routes: readonly NicRoute[]): readonly string[] {
  const values = routes.flatMap(({ destination, gateway = "0.0.0.0" }) => [destination, gateway]);
  const defaultGateway = routes.find(({ destination }) => destination === "0.0.0.0/0")?.gateway;
  const classlessOptions =
    values.length === 0 ? [] : [buildDhcpOption(nic, "option:classless-static-route", ...values)];
  // An empty router option announces no router. Without any router option, dnsmasq announces itself.
  return [
    buildDhcpOption(
      nic,
      "option:router",
      ...(defaultGateway === undefined ? [] : [defaultGateway]),
    ),
    ...classlessOptions,
  ];
}

/** Encodes an option's value as hexadecimal bytes, or a single byte as a number. dnsmasq could parse the plain text as an address. */
function printRawValue(value: string): string {
  const bytes = [...Buffer.from(value, "utf8")];
  if (bytes.length === 1) return String(bytes[0] ?? 0);
  return bytes.map((byte) => byte.toString(16).padStart(2, "0")).join(":");
}

function buildRequestedOptions(nic: ServedNic): readonly string[] {
  const {
    bootFileName = "",
    tftpServerName = "",
    ntpServers = [],
    privateOptions = [],
  } = nic.options;
  return [
    ...(bootFileName === "" ? [] : [buildDhcpOption(nic, BOOT_FILE_OPTION, bootFileName)]),
    ...(tftpServerName === "" ? [] : [buildDhcpOption(nic, TFTP_SERVER_OPTION, tftpServerName)]),
    ...(ntpServers.length === 0 ? [] : [buildDhcpOption(nic, "option:ntp-server", ...ntpServers)]),
    ...privateOptions.map(({ option: number, value }) =>
      buildDhcpOption(nic, String(number), printRawValue(value)),
    ),
  ];
}

function buildDnsOptions(nic: ServedNic, version: 4 | 6): readonly string[] {
  const nameservers = nic.dns.nameservers.filter((server) => parseIp(server)?.version === version);
  const printedServers = version === 4 ? nameservers : nameservers.map((server) => `[${server}]`);
  const name = version === 4 ? "option" : "option6";
  const search = nic.dns.search.map((domain) => domain.replace(/\.$/, ""));
  return [
    ...(printedServers.length === 0
      ? []
      : [buildDhcpOption(nic, `${name}:dns-server`, ...printedServers)]),
    ...(search.length === 0 ? [] : [buildDhcpOption(nic, `${name}:domain-search`, ...search)]),
  ];
}

function buildIpv4Arguments(nic: ServedNic): readonly string[] {
  const { ipv4 } = nic.lease;
  if (ipv4 === undefined) return [];
  const { address, length } = parseCidr(ipv4.address);
  const [domain] = nic.dns.search;
  return [
    // `--shared-network` lets the bridge serve the range, although the bridge has no address in the guest's subnet.
    `--shared-network=${nic.bridgeName},${address}`,
    `--dhcp-range=${address},static,${printNetmask(length)},infinite`,
    buildDhcpOption(nic, HOSTNAME_OPTION, nic.hostname),
    buildDhcpOption(nic, "option:mtu", String(nic.mtu)),
    ...(domain === undefined
      ? []
      : [buildDhcpOption(nic, "option:domain-name", domain.replace(/\.$/, ""))]),
    ...buildRouteOptions(nic, ipv4.routes),
    ...buildDnsOptions(nic, 4),
    ...buildRequestedOptions(nic),
  ];
}

function buildIpv6Arguments(nic: ServedNic): readonly string[] {
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
    ...buildDnsOptions(nic, 6),
  ];
}

function buildHostArgument({ mac, lease }: ServedNic): string {
  const ipv4 = lease.ipv4 === undefined ? [] : [parseCidr(lease.ipv4.address).address];
  const ipv6 = (lease.ipv6?.addresses ?? []).map(
    ({ address }) => `[${parseCidr(address).address}]`,
  );
  return `--dhcp-host=${[mac, ...ipv4, ...ipv6, "infinite"].join(",")}`;
}

const OPTION_VALUE = /^[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?$/;

function assertOptionValues({ bridgeName, mac, hostname }: ServedNic): void {
  const invalidValue = [bridgeName, mac, hostname].find((value) => !OPTION_VALUE.test(value));
  if (invalidValue === undefined) return;
  const reason = `${JSON.stringify(invalidValue)} is not a valid word of a DHCP option`;
  throw new AppError("PODNET_ADDRESS_SERVER_FAILED", { reason });
}

/**
 * Returns dnsmasq's arguments for one NIC. docs/design/guest-addresses.md explains them. Given a single `--interface`,
 * dnsmasq binds its sockets to that device, and receives no requests of other NICs. Source: dnsmasq(8), 2.90
 * @throws AppError with PODNET_ADDRESS_SERVER_FAILED if a name or address is invalid
 */
export function buildDnsmasqArguments(nic: ServedNic): readonly string[] {
  assertOptionValues(nic);
  return [
    ...COMMON_ARGUMENTS,
    ...(nic.lease.ipv6 === undefined ? [] : ["--enable-ra"]),
    `--interface=${nic.bridgeName}`,
    buildHostArgument(nic),
    ...buildIpv4Arguments(nic),
    ...buildIpv6Arguments(nic),
  ];
}

interface AddressServersOptions {
  readonly runner: ProcessRunner;
  readonly namespaces: Namespaces;
  /** Name of the process family of all DHCP servers. A restarted agent kills leftover servers by this name. */
  readonly processFamily: string;
}

/** Time limit of a server process in milliseconds: the longest timer delay. The server is then restarted. Source: Node.js, setTimeout */
const LIFETIME_MAX_MS = 2_147_483_647;
const LISTENING_MESSAGE = "started, version";
const OUTPUT_MAX = 2000;

/**
 * Lowest user ID for dnsmasq processes. No host account uses these IDs. Each process has its own, so that a compromised server can neither
 * trace nor kill another server. The inode number of the network namespace selects a block of IDs. FIRST_INODE is the minimum inode number
 * of a namespace. Source: systemd, UIDS-GIDS.md; linux/proc_ns.h
 */
const FIRST_UID = 0x7000_0000;
const FIRST_INODE = 0xf000_0000;
const UIDS_PER_NAMESPACE = 256;
const NAMESPACE_COUNT = 0x10_0000;

class UserPool {
  readonly #usedUids = new Map<string, Set<number>>();

  /** Assigns the first unused user ID of the namespace's block. If all are in use, servers share user IDs. */
  assign({ inode }: NetnsHandle): { readonly user: string; readonly release: () => void } {
    const usedUids = this.#usedUids.get(inode) ?? new Set();
    this.#usedUids.set(inode, usedUids);
    let slot = 0;
    while (usedUids.has(slot)) slot += 1;
    usedUids.add(slot);
    const block = Math.max(Number(inode) - FIRST_INODE, 0) % NAMESPACE_COUNT;
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

/** Capabilities for ports below 1024, router advertisements, and neighbor entries. dnsmasq requires all three. */
const CAPABILITIES = "-all,+net_bind_service,+net_raw,+net_admin";

/**
 * Script that makes a root file system with only programs, libraries and two devices, detaches the old root, and prints its PID. Otherwise,
 * the servers' mount namespace would keep volumes of other VMs mounted. Those volumes could be neither mounted again nor deleted.
 */
const MAKE_ROOT_SCRIPT = `mount -t tmpfs -o size=64k,mode=755 none /tmp && cd /tmp || exit
for place in bin etc lib lib32 lib64 libx32 sbin usr; do
  if [ -L "/$place" ]; then ln -s "$(readlink "/$place")" "$place"
  elif [ -d "/$place" ]; then mkdir "$place" && mount --bind "/$place" "$place"
  fi || exit
done
mkdir dev old proc && touch dev/null dev/urandom &&
mount --bind /dev/null dev/null && mount --bind /dev/urandom dev/urandom && mount --move /proc proc &&
pivot_root . old && cd / && umount -l old && rmdir old && mount -o remount,ro / && umount -l proc || exit
echo "$$" && exec sleep 60`;

/** Resource limits of a DHCP server, which needs 12 MiB of address space. `--nproc` allows for a previous server that is still exiting. */
const LIMITS = ["--as=67108864", "--nofile=256", "--nproc=4", "--fsize=0", "--core=0"] as const;

function buildCommand(
  user: string,
  nic: ServedNic,
  root: OpenNetns | undefined,
): readonly [string, ...string[]] {
  return [
    "nsenter",
    "--net=/proc/self/fd/3",
    ...(root === undefined ? [] : ["--mount=/proc/self/fd/4"]),
    ...(["sh", "-c", 'exec "$@" 2>&1 3<&- 4<&-', "sh"] as const),
    // dnsmasq runs in a separate PID namespace and sees no other process. `unshare` stays outside, and kills dnsmasq when the agent exits.
    "unshare",
    "--pid",
    "--ipc",
    "--fork",
    "--kill-child",
    ...(root === undefined ? [] : ["--mount-proc"]),
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
    // Sets the parent-death signal after the user ID has changed, because this change clears the signal.
    "--pdeathsig",
    "KILL",
    "dnsmasq",
    ...buildDnsmasqArguments(nic),
  ];
}

function serverFailedError(reason: string): AppError {
  return new AppError("PODNET_ADDRESS_SERVER_FAILED", { reason });
}

function lastLine(output: string): string {
  return output.trim().split("\n").at(-1) ?? "";
}

/** Time limit of the script that makes the root, in milliseconds. It usually takes 20 ms. */
const MAKE_ROOT_TIMEOUT_MS = 10_000;

/**
 * Makes the servers' root file system, and returns its mount namespace, which exists as long as its descriptor. Returns undefined if the
 * agent's container may not mount, because of AppArmor, or not enter a mount namespace, without the capability SYS_CHROOT. Rejects if a program cannot start or takes too long.
 */
async function makeRoot({
  runner,
  namespaces,
  processFamily,
}: AddressServersOptions): Promise<OpenNetns | undefined> {
  const started = Promise.withResolvers<string | undefined>();
  const stop = new AbortController();
  let output = "";
  const onOutput = (text: string): void => {
    output += text;
    if (output.endsWith("\n")) started.resolve(output.trim());
  };
  const limits = { processFamily, timeoutMs: MAKE_ROOT_TIMEOUT_MS };
  const script = ["unshare", "--mount", "sh", "-c", MAKE_ROOT_SCRIPT] as const;
  runner.run({ argv: script, ...limits, signal: stop.signal, onOutput }).then(() => {
    started.resolve(undefined);
  }, started.reject);
  let root: OpenNetns | undefined;
  let canEnter = false;
  try {
    const pid = await started.promise;
    root = pid === undefined ? undefined : namespaces.open(`/proc/${pid}/ns/mnt`);
    if (root === undefined) return undefined;
    const argv = ["nsenter", "--mount=/proc/self/fd/3", "true"] as const;
    const { exitCode } = await runner.run({ argv, ...limits, inheritFds: [root] });
    canEnter = exitCode === 0;
  } finally {
    stop.abort();
    if (!canEnter) root?.close();
  }
  return canEnter ? root : undefined;
}

interface ServerCommand {
  readonly inheritFds: readonly NetnsHandle[];
  readonly argv: readonly [string, ...string[]];
  readonly release: () => void;
}

async function start(
  { runner, processFamily }: AddressServersOptions,
  { inheritFds, argv, release }: ServerCommand,
): Promise<AddressServer> {
  const listening = Promise.withResolvers<undefined>();
  const stop = new AbortController();
  let output = "";
  const onOutput = (text: string): void => {
    output = `${output}${text}`.slice(-OUTPUT_MAX);
    if (output.includes(LISTENING_MESSAGE)) listening.resolve(undefined);
  };
  const command = { argv, processFamily, inheritFds, timeoutMs: LIFETIME_MAX_MS };
  const ended = runner.run({ ...command, signal: stop.signal, onOutput }).then(
    ({ exitCode }) => `exit code ${String(exitCode)}: ${lastLine(output)}`,
    (error: unknown) => (stop.signal.aborted ? "it was stopped" : messageOf(error)),
  );
  void ended.then(release);
  await Promise.race([
    listening.promise,
    ended.then((reason) => Promise.reject(serverFailedError(reason))),
  ]);
  return {
    ended,
    stop: async () => {
      stop.abort(serverFailedError("it was stopped"));
      await ended;
    },
  };
}

export function createDhcpServers(options: AddressServersOptions): AddressServers {
  const users = new UserPool();
  let root: Promise<OpenNetns | undefined> | undefined;
  const openRoot = async (): Promise<OpenNetns | undefined> => {
    const making = (root ??= makeRoot(options));
    let opened: OpenNetns | undefined;
    try {
      opened = await making;
    } finally {
      if (opened === undefined && root === making) root = undefined;
    }
    return opened;
  };
  return {
    start: async (netns, nic) => {
      const { user, release } = users.assign(netns);
      try {
        const opened = await openRoot();
        const argv = buildCommand(user, nic, opened);
        const inheritFds = opened === undefined ? [netns] : [netns, opened];
        return await start(options, { inheritFds, argv, release });
      } catch (error) {
        release();
        throw error;
      }
    },
    killLeftovers: () => options.runner.killProcessFamily(options.processFamily),
  };
}
