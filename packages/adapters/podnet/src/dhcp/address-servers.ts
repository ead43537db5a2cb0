// SPDX-License-Identifier: Apache-2.0
// Runs dnsmasq in a pod's network namespace, as a user of its own that sees nothing else, and ends it.
import { AppError, messageOf, type ServedNic } from "@patchbay/core";
import type {
  AddressServer,
  AddressServers,
  NetnsHandle,
  ProcessRunner,
} from "@patchbay/core/ports";
import { dnsmasqArguments } from "./dnsmasq-arguments.ts";

/** What the servers are run by. */
export interface AddressServersOptions {
  readonly runner: ProcessRunner;
  /** Who runs them, in words that a successor of this process says too. */
  readonly family: string;
}

/** As long as a timer can be; then it is started again like one that died. Source: Node.js, setTimeout */
const LIFETIME_MS = 2_147_483_647;
/** What dnsmasq prints when it listens. */
const STARTED = "started, version";
/** Most that is kept of what it prints, characters. */
const SAID_MAX = 2000;

/**
 * Users that nobody has, one for each network namespace: a server that is taken over can neither trace nor kill that of
 * another VM. Inodes of namespaces begin at the second number. Source: systemd, UIDS-GIDS.md; linux/proc_ns.h
 */
const FIRST_USER = 0x7000_0000;
const FIRST_INODE = 0xf000_0000;
const USERS = 0x0fff_ffff;

function userOf({ inode }: NetnsHandle): string {
  return String(FIRST_USER + (Math.max(Number(inode) - FIRST_INODE, 0) % USERS));
}

/** Ports below 1024, raw sockets for router advertisements, and entries of neighbours, without which dnsmasq does not start. */
const CAPABILITIES = "-all,+net_bind_service,+net_raw,+net_admin";

/**
 * Where others' files and sockets are: the server is given empty places there, in mounts of its own. It reads no file but
 * its libraries. A container may be forbidden to mount (AppArmor): there it is left with what the agent's container has.
 */
const HIDDEN = "/dev/shm /home /media /mnt /opt /root /run /srv /tmp /var";
const HIDE = `for place in ${HIDDEN}; do
  [ ! -d "$place" ] || mount -t tmpfs -o ro,size=4k,mode=555 none "$place" || exit
done
exec "$@"`;
const HIDE_IF_ALLOWED = `unshare --mount mount -t tmpfs none /tmp 2>/dev/null || exec "$@"
exec unshare --mount --mount-proc sh -c '${HIDE}' sh "$@"`;

/** It has 12 MiB of addresses, a few sockets for each NIC, writes no file, and starts no program; one that is ending may be there still. */
const LIMITS = ["--as=67108864", "--nofile=256", "--nproc=4", "--fsize=0", "--core=0"] as const;

function argvOf(netns: NetnsHandle, nics: readonly ServedNic[]): readonly [string, ...string[]] {
  const user = userOf(netns);
  return [
    ...(["nsenter", "--net=/proc/self/fd/3", "sh", "-c", 'exec "$@" 2>&1 3<&-', "sh"] as const),
    // It is process 1 of its own, and sees no other; who waits for it outside dies with the agent, and takes it along.
    ...["unshare", "--pid", "--ipc", "--fork", "--kill-child", "sh", "-c", HIDE_IF_ALLOWED, "sh"],
    ...["prlimit", ...LIMITS],
    ...["setpriv", "--reuid", user, "--regid", user, "--clear-groups", "--no-new-privs"],
    ...["--inh-caps", CAPABILITIES, "--ambient-caps", CAPABILITIES, "--bounding-set", CAPABILITIES],
    // A change of user takes back what was set before.
    ...["--pdeathsig", "KILL"],
    ...["dnsmasq", ...dnsmasqArguments(nics)],
  ];
}

function failed(reason: string): AppError {
  return new AppError("PODNET_ADDRESS_SERVER_FAILED", { reason });
}

/** The last line, which tells why it ended. */
function lastOf(said: string): string {
  return said.trim().split("\n").at(-1) ?? "";
}

async function start(
  { runner, family }: AddressServersOptions,
  netns: NetnsHandle,
  nics: readonly ServedNic[],
): Promise<AddressServer> {
  const argv = argvOf(netns, nics);
  const listening = Promise.withResolvers<undefined>();
  const stop = new AbortController();
  let said = "";
  const onOutput = (text: string): void => {
    said = `${said}${text}`.slice(-SAID_MAX);
    if (said.includes(STARTED)) listening.resolve(undefined);
  };
  const command = { argv, family, inheritFds: [netns], timeoutMs: LIFETIME_MS };
  const ended = runner.run({ ...command, signal: stop.signal, onOutput }).then(
    ({ exitCode }) => `exit code ${String(exitCode)}: ${lastOf(said)}`,
    (error: unknown) => (stop.signal.aborted ? "it was stopped" : messageOf(error)),
  );
  await Promise.race([listening.promise, ended.then((reason) => Promise.reject(failed(reason)))]);
  return {
    ended,
    stop: async () => {
      stop.abort(failed("it was stopped"));
      await ended;
    },
  };
}

/** DHCP servers by dnsmasq; each in the namespace that it serves. */
export function createAddressServers(options: AddressServersOptions): AddressServers {
  return {
    start: (netns, nics) => start(options, netns, nics),
    endLeft: () => options.runner.endFamily(options.family),
  };
}
