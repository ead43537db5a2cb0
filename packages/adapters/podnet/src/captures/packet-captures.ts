// SPDX-License-Identifier: Apache-2.0
// Runs tcpdump in a pod's network namespace, as a user of its own that may open packet sockets there and nothing else. Looked at:
// libpcap through an addon of ours, and a packet socket with a filter of our own making.
import { AppError, messageOf } from "@patchbay/core";
import type {
  CapturedLink,
  NetnsHandle,
  PacketCapture,
  PacketCaptures,
  ProcessRunner,
} from "@patchbay/core/ports";

/** What captures are run by. */
export interface PacketCapturesOptions {
  readonly runner: ProcessRunner;
  /** Who runs them, in words that a successor of this process says too. */
  readonly family: string;
}

/** As long as a timer can be: whoever asked for it ends it sooner. Source: Node.js, setTimeout */
const LIFETIME_MS = 2_147_483_647;
/** A user that nobody has: what reads a stranger's filter can neither trace nor kill anything. Source: systemd, UIDS-GIDS.md */
const USER = "1610612736";
/** Packet sockets. */
const CAPABILITIES = "-all,+net_raw";
/** A filter may be made into much; it writes no file and starts no program. */
const LIMITS = ["--as=268435456", "--nofile=32", "--nproc=8", "--fsize=0", "--core=0"] as const;

function argvOf({ link, filter }: CapturedLink): readonly [string, ...string[]] {
  return [
    ...(["nsenter", "--net=/proc/self/fd/3", "sh", "-c", 'exec "$@" 3<&-', "sh"] as const),
    "prlimit",
    ...LIMITS,
    "setpriv",
    "--reuid",
    USER,
    "--regid",
    USER,
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
    // Whole packets as they come, no names looked up; what follows `--` is the filter, whatever it begins with.
    "tcpdump",
    "-n",
    "-U",
    "--immediate-mode",
    "-i",
    link,
    "-w",
    "-",
    "--",
    filter,
  ];
}

/** What tcpdump says of itself, without its name. */
function lastOf(said: string): string {
  const lines = said.trim().split("\n");
  const line = lines.findLast((each) => !/packets? (captured|received|dropped)/.test(each)) ?? "";
  return line.replace(/^tcpdump: /, "");
}

/** Words of libpcap's compiler of filters. Source: libpcap gencode.c, grammar.y */
const OF_FILTER =
  /can't parse filter|syntax error|unknown|illegal|invalid|unsupported|not supported|expression|mask|host|port|qualifier/i;

function failureOf(what: CapturedLink, reason: string): AppError {
  const { link, filter } = what;
  const isOfFilter = filter !== "" && OF_FILTER.test(reason) && !reason.startsWith(`${link}:`);
  return isOfFilter
    ? new AppError("CAPTURE_FILTER_INVALID", { filter, reason })
    : new AppError("PODNET_CAPTURE_FAILED", { link, reason });
}

async function start(
  { runner, family }: PacketCapturesOptions,
  { netns, what }: { readonly netns: NetnsHandle; readonly what: CapturedLink },
  take: (bytes: Uint8Array) => void | Promise<void>,
): Promise<PacketCapture> {
  const begun = Promise.withResolvers<undefined>();
  const stop = new AbortController();
  const onBytes = (bytes: Uint8Array): void | Promise<void> => {
    begun.resolve(undefined); // the header comes when the socket is open
    return take(bytes);
  };
  const command = { argv: argvOf(what), family, inheritFds: [netns], timeoutMs: LIFETIME_MS };
  const ended = runner.run({ ...command, signal: stop.signal, onBytes }).then(
    ({ exitCode, stderr }) => lastOf(stderr) || `exit code ${String(exitCode)}`,
    (error: unknown) => {
      if (stop.signal.aborted) return "it was stopped";
      begun.reject(error);
      return messageOf(error);
    },
  );
  await Promise.race([
    begun.promise,
    ended.then((reason) => Promise.reject(failureOf(what, reason))),
  ]);
  return {
    ended,
    stop: async () => {
      stop.abort(new Error("it was stopped"));
      await ended;
    },
  };
}

/** Captures by tcpdump; each in the namespace of its link. */
export function createPacketCaptures(options: PacketCapturesOptions): PacketCaptures {
  return {
    start: (netns, what, take) => start(options, { netns, what }, take),
    endLeft: () => options.runner.endFamily(options.family),
  };
}
