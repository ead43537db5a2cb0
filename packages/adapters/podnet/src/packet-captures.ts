// SPDX-License-Identifier: Apache-2.0
// Captures packets with tcpdump in a pod's network namespace. tcpdump runs as a user that may only open packet sockets.
// tcpdump also compiles the filters, so the agent does not need libpcap.
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
  /** Name of the captures' process family. A restarted agent kills leftover captures by this name. */
  readonly processFamily: string;
}

/** Time limit of a capture: the maximum timer delay, in milliseconds. Callers end captures earlier. Source: Node.js, setTimeout */
const LIFETIME_MAX_MS = 2_147_483_647;
/** User ID that no host account uses, so that tcpdump cannot trace or kill other processes. Source: systemd, UIDS-GIDS.md */
const USER_ID = "1610612736";
const CAPABILITIES = "-all,+net_raw";
/** Resource limits of tcpdump. The memory limit allows for filters that compile to large programs. */
const LIMITS = ["--as=268435456", "--nofile=32", "--nproc=8", "--fsize=0", "--core=0"] as const;

function buildCommand({ link, filter }: CapturedLink): readonly [string, ...string[]] {
  return [
    ...(["nsenter", "--net=/proc/self/fd/3", "sh", "-c", 'exec "$@" 3<&-', "sh"] as const),
    "prlimit",
    ...LIMITS,
    "setpriv",
    "--reuid",
    USER_ID,
    "--regid",
    USER_ID,
    "--clear-groups",
    "--no-new-privs",
    "--inh-caps",
    CAPABILITIES,
    "--ambient-caps",
    CAPABILITIES,
    "--bounding-set",
    CAPABILITIES,
    // setpriv sets the parent-death signal last, because the kernel clears it when the user ID changes.
    "--pdeathsig",
    "KILL",
    // `-n` disables name lookups. `-U` and `--immediate-mode` write each packet immediately. `--` allows a filter that begins with a dash.
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

function findLastMessage(output: string): string {
  const lines = output.trim().split("\n");
  const line =
    lines.findLast((candidate) => !/packets? (captured|received|dropped)/.test(candidate)) ?? "";
  return line.replace(/^tcpdump: /, "");
}

/** Pattern of error messages from libpcap's filter compiler. Source: libpcap gencode.c, grammar.y */
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
  { runner, processFamily }: PacketCapturesOptions,
  { netns, capture }: { readonly netns: NetnsHandle; readonly capture: CapturedLink },
  onPackets: (bytes: Uint8Array) => void | Promise<void>,
): Promise<PacketCapture> {
  const firstBytes = Promise.withResolvers<undefined>();
  const stop = new AbortController();
  const onBytes = (bytes: Uint8Array): void | Promise<void> => {
    firstBytes.resolve(undefined);
    return onPackets(bytes);
  };
  const command = {
    argv: buildCommand(capture),
    processFamily,
    inheritFds: [netns],
    timeoutMs: LIFETIME_MAX_MS,
  };
  const ended = runner.run({ ...command, signal: stop.signal, onBytes }).then(
    ({ exitCode, stderr }) => findLastMessage(stderr) || `exit code ${String(exitCode)}`,
    (error: unknown) => {
      if (stop.signal.aborted) return "it was stopped";
      firstBytes.reject(error);
      return messageOf(error);
    },
  );
  await Promise.race([
    firstBytes.promise,
    ended.then((reason) => Promise.reject(toError(capture, reason))),
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
    start: (netns, capture, onPackets) => start(options, { netns, capture }, onPackets),
    killLeftovers: () => options.runner.killProcessFamily(options.processFamily),
  };
}
