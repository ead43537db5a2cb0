// SPDX-License-Identifier: Apache-2.0
// Connects a terminal to a guest's console.
import type { Duplex, Readable, Writable } from "node:stream";
import { createClock } from "@patchbay/os";

/** Code of Ctrl-], the escape character of telnet and virsh. */
const ESCAPE_KEY = 0x1d;
/** After the input (for example a file) has ended, the console closes when the guest has sent no output for this time, in milliseconds. */
const SILENCE_MS = 1000;

export interface TerminalStreams {
  readonly input: Readable & { readonly isTTY?: boolean; setRawMode?: (on: boolean) => unknown };
  readonly output: Writable;
  readonly stream: Duplex;
}

function setRaw(input: TerminalStreams["input"], on: boolean): void {
  if (input.isTTY === true) input.setRawMode?.(on);
}

async function waitForSilence(stream: Duplex): Promise<void> {
  const clock = createClock();
  const neverAborted = new AbortController().signal;
  let lastMs = clock.monotonicMs();
  stream.on("data", () => {
    lastMs = clock.monotonicMs();
  });
  for (
    let remainingMs = SILENCE_MS;
    remainingMs > 0;
    remainingMs = lastMs + SILENCE_MS - clock.monotonicMs()
  ) {
    await clock.sleep(remainingMs, neverAborted);
  }
}

/** Connects terminal and guest. Ends after Ctrl-], at the stream's end, on an abort, or when the input has ended and the guest is idle. */
export async function joinTerminal(streams: TerminalStreams, signal: AbortSignal): Promise<void> {
  const { input, output, stream } = streams;
  const ended = Promise.withResolvers<undefined>();
  const finish = (): void => {
    ended.resolve(undefined);
  };
  const onInput = (chunk: Buffer): void => {
    const end = input.isTTY === true ? chunk.indexOf(ESCAPE_KEY) : -1;
    stream.write(end === -1 ? chunk : chunk.subarray(0, end));
    if (end !== -1) finish();
  };
  const onInputEnd = (): void => {
    void waitForSilence(stream).then(finish);
  };
  stream.on("data", (chunk: Buffer) => output.write(chunk));
  for (const end of ["end", "close"]) stream.once(end, finish);
  stream.on("error", ended.reject);
  signal.addEventListener("abort", finish, { once: true });
  setRaw(input, true);
  input.on("data", onInput);
  input.once("end", onInputEnd);
  try {
    if (!signal.aborted) await ended.promise;
  } finally {
    setRaw(input, false);
    input.off("data", onInput);
    input.off("end", onInputEnd);
    input.pause();
    signal.removeEventListener("abort", finish);
    stream.end(); // Sends the remaining input before it closes the stream.
  }
}
