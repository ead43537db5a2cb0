// SPDX-License-Identifier: Apache-2.0
// Watches of a server under load: time until an event has reached all of them.
import type { IncomingMessage } from "node:http";
import { send } from "../../contract/apiserver/client.ts";
import { load, quantile, timed } from "./load.ts";
import type { ServerProcess } from "./process.ts";

const WATCHERS = 50;
const EVENTS = 500;
const WRITERS = 16;

/** Opens a watch; calls `onLine` with each event. Resolves at the start of the response. */
async function openWatch(
  server: ServerProcess,
  path: string,
  on: { readonly line: (line: string) => void; readonly signal: AbortSignal },
): Promise<void> {
  const { signal } = on;
  const agent = server.makeAgent();
  const answer = await send(agent, `${server.url}${path}`, { signal });
  signal.addEventListener("abort", () => {
    agent.destroy();
  });
  void readLines(answer, on.line).catch(() => undefined);
}

async function readLines(answer: IncomingMessage, onLine: (line: string) => void): Promise<void> {
  let rest = "";
  answer.setEncoding("utf8");
  for await (const chunk of answer) {
    const lines = `${rest}${String(chunk)}`.split("\n");
    rest = lines.pop() ?? "";
    lines.forEach(onLine);
  }
}

/** Waits for `count` events of a watch from 0; returns milliseconds. */
export async function measureReplay(
  server: ServerProcess,
  path: string,
  count: number,
): Promise<number> {
  const abort = new AbortController();
  const { promise, resolve } = Promise.withResolvers<undefined>();
  let observed = 0;
  const line = () => {
    observed += 1;
    if (observed === count) {
      resolve(undefined);
    }
  };
  const { ms } = await timed(async () => {
    await openWatch(server, `${path}?watch=1&resourceVersion=0`, { line, signal: abort.signal });
    await promise;
  });
  abort.abort();
  return ms;
}

/** Creates objects and waits until all watches have received them. */
export async function measureFanOut(
  server: ServerProcess,
  path: string,
  makeObject: (name: string) => unknown,
): Promise<string> {
  const abort = new AbortController();
  const sentMs = new Map<string, number>();
  const tookMs: number[] = [];
  const { promise, resolve } = Promise.withResolvers<undefined>();
  const line = (text: string) => {
    const name = /"name":"(fan-\d+)"/.exec(text)?.[1] ?? "";
    tookMs.push(performance.now() - (sentMs.get(name) ?? NaN));
    if (tookMs.length === WATCHERS * EVENTS) {
      resolve(undefined);
    }
  };
  // Only the list's revision is read.
  const list = JSON.parse(await server.ask("GET", `${path}?limit=1`)) as {
    readonly metadata: { readonly resourceVersion: string };
  };
  const from = `${path}?watch=1&resourceVersion=${list.metadata.resourceVersion}`;
  for (let count = 0; count < WATCHERS; count += 1) {
    await openWatch(server, from, { line, signal: abort.signal });
  }
  const { ms } = await timed(async () => {
    await load(EVENTS, WRITERS, async (index) => {
      const name = `fan-${String(index)}`;
      sentMs.set(name, performance.now());
      await server.ask("POST", path, makeObject(name));
    });
    await promise;
  });
  abort.abort();
  const sorted = tookMs.toSorted((left, right) => left - right);
  const rate = ((WATCHERS * EVENTS) / ms) * 1000;
  return `${rate.toFixed(0)} deliveries/s in ${(ms / 1000).toFixed(2)} s; request to event p50 ${quantile(sorted, 0.5).toFixed(1)} ms, p99 ${quantile(sorted, 0.99).toFixed(1)} ms`;
}
