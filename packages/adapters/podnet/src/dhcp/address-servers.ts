// SPDX-License-Identifier: Apache-2.0
// Runs dnsmasq for one NIC in a pod's network namespace, as a user of its own that sees nothing else, and ends it.
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
 * Unassigned users, one for each server: a server that is taken over can neither trace nor kill another. Each network
 * namespace has a block of them, by its inode. Inodes of namespaces begin at FIRST_INODE.
 * Source: systemd, UIDS-GIDS.md; linux/proc_ns.h
 */
const FIRST_USER = 0x7000_0000;
const FIRST_INODE = 0xf000_0000;
const USERS_OF_NAMESPACE = 256;
const NAMESPACES = 0x10_0000;

/** The users of running servers, by the inode of their namespace. */
class Users {
  readonly #taken = new Map<string, Set<number>>();

  /** The first free user of the namespace; beyond its block, servers of one pod share users. */
  assign({ inode }: NetnsHandle): { readonly user: string; readonly release: () => void } {
    const taken = this.#taken.get(inode) ?? new Set();
    this.#taken.set(inode, taken);
    let slot = 0;
    while (taken.has(slot)) slot += 1;
    taken.add(slot);
    const block = Math.max(Number(inode) - FIRST_INODE, 0) % NAMESPACES;
    const user = FIRST_USER + block * USERS_OF_NAMESPACE + (slot % USERS_OF_NAMESPACE);
    return {
      user: String(user),
      release: () => {
        taken.delete(slot);
        if (taken.size === 0 && this.#taken.get(inode) === taken) this.#taken.delete(inode);
      },
    };
  }
}

/** Ports below 1024, raw sockets for router advertisements, and entries of neighbours, without which dnsmasq does not start. */
const CAPABILITIES = "-all,+net_bind_service,+net_raw,+net_admin";

/**
 * The server's root file system has programs, libraries and two devices, and nothing else. The old root is detached rather
 * than covered: a mount namespace that lives as long as a VM would keep every file system in use that is mounted now, and
 * the claims of other VMs on them could be neither mounted again nor deleted.
 */
const ROOT = `mount -t tmpfs -o size=64k,mode=755 none /tmp && cd /tmp || exit
for place in bin etc lib lib32 lib64 libx32 sbin usr; do
  if [ -L "/$place" ]; then ln -s "$(readlink "/$place")" "$place"
  elif [ -d "/$place" ]; then mkdir "$place" && mount --bind "/$place" "$place"
  fi || exit
done
mkdir dev old proc && touch dev/null dev/urandom &&
mount --bind /dev/null dev/null && mount --bind /dev/urandom dev/urandom && mount --move /proc proc &&
pivot_root . old && cd / && umount -l old && rmdir old && mount -o remount,ro / || exit
exec "$@"`;
/** AppArmor may forbid mounts to a container; there the server keeps the mounts of the agent's container. */
const WITH_ROOT_IF_ALLOWED = `unshare --mount sh -c 'mount -t tmpfs none /tmp && cd /tmp && mkdir old && exec pivot_root . old' 2>/dev/null || exec "$@"
exec unshare --mount --mount-proc sh -c '${ROOT}' sh "$@"`;

/** It has 12 MiB of addresses, a few sockets for each NIC, writes no file, and starts no program; one that is ending may be there still. */
const LIMITS = ["--as=67108864", "--nofile=256", "--nproc=4", "--fsize=0", "--core=0"] as const;

function argvOf(user: string, nic: ServedNic): readonly [string, ...string[]] {
  return [
    ...(["nsenter", "--net=/proc/self/fd/3", "sh", "-c", 'exec "$@" 2>&1 3<&-', "sh"] as const),
    // It is process 1 of its own, and sees no other; who waits for it outside dies with the agent, and takes it along.
    "unshare",
    "--pid",
    "--ipc",
    "--fork",
    "--kill-child",
    "sh",
    "-c",
    WITH_ROOT_IF_ALLOWED,
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
    // A change of user takes back what was set before.
    "--pdeathsig",
    "KILL",
    "dnsmasq",
    ...dnsmasqArguments(nic),
  ];
}

function failed(reason: string): AppError {
  return new AppError("PODNET_ADDRESS_SERVER_FAILED", { reason });
}

/** The last line, which tells why it ended. */
function lastOf(said: string): string {
  return said.trim().split("\n").at(-1) ?? "";
}

/** A user, and what it runs. */
interface Assigned {
  readonly argv: readonly [string, ...string[]];
  readonly release: () => void;
}

async function start(
  { runner, family }: AddressServersOptions,
  netns: NetnsHandle,
  { argv, release }: Assigned,
): Promise<AddressServer> {
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
  void ended.then(release);
  await Promise.race([listening.promise, ended.then((reason) => Promise.reject(failed(reason)))]);
  return {
    ended,
    stop: async () => {
      stop.abort(failed("it was stopped"));
      await ended;
    },
  };
}

/** DHCP servers by dnsmasq; each runs in the namespace of the NIC that it serves. */
export function createAddressServers(options: AddressServersOptions): AddressServers {
  const users = new Users();
  return {
    start: async (netns, nic) => {
      const { user, release } = users.assign(netns);
      try {
        return await start(options, netns, { argv: argvOf(user, nic), release });
      } catch (error) {
        release();
        throw error;
      }
    },
    endLeft: () => options.runner.endFamily(options.family),
  };
}
