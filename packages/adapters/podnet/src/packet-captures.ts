// SPDX-License-Identifier: Apache-2.0
// Captures packets with tcpdump in a pod's network namespace, as a user that may only open packet sockets. Rejected
// alternatives: libpcap through our own addon, and a packet socket with our own filter compiler.
import { AppError, messageOf } from "@patchbay/base";
import type {
  CapturedLink,
  NetnsHandle,
  PacketCapture,
  PacketCaptures,
  ProcessRunner,
} from "@patchbay/core/interfaces";

interface PacketCapturesOptions {
  readonly runner: ProcessRunner;
  /** Process family, the same after a restart of this process, so that leftover captures can be killed. */
  readonly family: string;
}

/** Longest delay of a timer; callers end captures sooner. Source: Node.js, setTimeout */
const LIFETIME_MAX_MS = 2_147_483_647;
/** An unassigned user, so that a tenant's filter cannot trace or kill other processes. Source: systemd, UIDS-GIDS.md */
const USER = "1610612736";
const CAPABILITIES = "-all,+net_raw";
/** Limits of tcpdump, which writes no file and starts no program. A filter can compile to a large program. */
const LIMITS = ["--as=268435456", "--nofile=32", "--nproc=8", "--fsize=0", "--core=0"] as const;

function buildCommand({ link, filter }: CapturedLink): readonly [string, ...string[]] {
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
    // A change of user clears the parent-death signal, so this sets it again.
    "--pdeathsig",
    "KILL",
    // Writes each packet at once, without name lookups. The filter follows `--` because it may begin with a dash.
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

function lastMessage(output: string): string {
  const lines = output.trim().split("\n");
  const line = lines.findLast((each) => !/packets? (captured|received|dropped)/.test(each)) ?? "";
  return line.replace(/^tcpdump: /, "");
}

/** Pattern of messages of libpcap's filter compiler. Source: libpcap gencode.c, grammar.y */
const FILTER_ERROR =
  /can't parse filter|syntax error|unknown|illegal|invalid|unsupported|not supported|expression|mask|host|port|qualifier/i;

function toError(capture: CapturedLink, reason: string): AppError {
  const { link, filter } = capture;
  const isFilterError =
    filter !== "" && FILTER_ERROR.test(reason) && !reason.startsWith(`${link}:`);
  return isFilterError
    ? new AppError("CAPTURE_FILTER_INVALID", { filter, reason })
    : new AppError("PODNET_CAPTURE_FAILED", { link, reason });
}

async function start(
  { runner, family }: PacketCapturesOptions,
  { netns, what }: { readonly netns: NetnsHandle; readonly what: CapturedLink },
  take: (bytes: Uint8Array) => void | Promise<void>,
): Promise<PacketCapture> {
  const firstBytes = Promise.withResolvers<undefined>();
  const stop = new AbortController();
  const onBytes = (bytes: Uint8Array): void | Promise<void> => {
    firstBytes.resolve(undefined);
    return take(bytes);
  };
  const command = {
    argv: buildCommand(what),
    family,
    inheritFds: [netns],
    timeoutMs: LIFETIME_MAX_MS,
  };
  const ended = runner.run({ ...command, signal: stop.signal, onBytes }).then(
    ({ exitCode, stderr }) => lastMessage(stderr) || `exit code ${String(exitCode)}`,
    (error: unknown) => {
      if (stop.signal.aborted) return "it was stopped";
      firstBytes.reject(error);
      return messageOf(error);
    },
  );
  await Promise.race([
    firstBytes.promise,
    ended.then((reason) => Promise.reject(toError(what, reason))),
  ]);
  return {
    ended,
    stop: async () => {
      stop.abort(new Error("it was stopped"));
      await ended;
    },
  };
}

export function createPacketCaptures(options: PacketCapturesOptions): PacketCaptures {
  return {
    start: (netns, what, take) => start(options, { netns, what }, take),
    killLeftovers: () => options.runner.killFamily(options.family),
  };
}
