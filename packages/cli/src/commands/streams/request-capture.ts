// SPDX-License-Identifier: Apache-2.0
// Captures packets of an interface to a file or to standard output.
import { stdout } from "node:process";
import type { Duplex } from "node:stream";
import { pipeline } from "node:stream/promises";
import { parseQuantity } from "@patchbay/api/values";
import { AppError } from "@patchbay/base";
import {
  CAPTURE,
  CAPTURE_LIMITS,
  printCaptureQuery,
  type CaptureOptions,
} from "@patchbay/core/guest";
import { openNewFile } from "@patchbay/os";
import type { Context } from "../../command.ts";
import { argumentAt, numberOption, textOption, type Input } from "../../input.ts";
import { withTarget } from "../../session.ts";
import { openStream } from "./open-stream.ts";

const { seconds: SECONDS } = CAPTURE_LIMITS;

/** Rejects a terminal as output, because packets are binary data. */
function assertNoTerminal(path: string | undefined): void {
  if (path !== undefined || !stdout.isTTY) return;
  const reason =
    "packets are not written to a terminal; name a file with -w, or pipe them: | tcpdump -nr -";
  throw new AppError("FLAG_INVALID", { flag: "--write", reason });
}

function readBytes(input: Input): number {
  const text = textOption(input, "bytes") ?? "";
  const bytes = parseQuantity(text);
  if (bytes !== undefined) return bytes;
  throw new AppError("FLAG_INVALID", {
    flag: "--bytes",
    reason: `${text} is not an amount, such as 16Mi`,
  });
}

function readOrder(input: Input): CaptureOptions {
  return {
    interface: argumentAt(input, 1),
    filter: input.args.slice(2).join(" "),
    seconds: Math.ceil(numberOption(input, "duration", SECONDS.fallback * 1000) / 1000),
    bytes: readBytes(input),
  };
}

async function copyPackets(
  stream: Duplex,
  path: string | undefined,
  signal: AbortSignal,
): Promise<void> {
  const stop = (): void => {
    stream.destroy();
  };
  signal.addEventListener("abort", stop, { once: true });
  const output = path === undefined ? stdout : openNewFile(path);
  try {
    await pipeline(stream, output);
  } catch (error) {
    if (!signal.aborted) throw error;
  } finally {
    signal.removeEventListener("abort", stop);
    stream.destroy();
  }
}

/** @throws AppError with LAUNCHER_UNREACHABLE, or with FLAG_INVALID, for example if the output is a terminal */
export async function requestCapture(context: Context, input: Input): Promise<void> {
  const path = textOption(input, "write");
  assertNoTerminal(path);
  const order = readOrder(input);
  await withTarget(context, input, async (target, session) => {
    const query = printCaptureQuery(order);
    const stream = await openStream(session, target, { subresource: [CAPTURE], query });
    context.err.write(`capturing packets of interface ${order.interface}; end with Ctrl-C\n`);
    await copyPackets(stream, path, context.signal);
  });
}
