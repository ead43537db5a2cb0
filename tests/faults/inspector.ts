// SPDX-License-Identifier: Apache-2.0
// Looks into a running Node.js process, and runs text in it, by the inspector that SIGUSR1 opens.
import { eventually } from "@patchbay/testing";

/** Where a process listens that got SIGUSR1. Source: Node.js, `--inspect-port`. */
const INSPECTOR = "http://127.0.0.1:9229/json/list";
const CONNECT_MS = 20_000;
/** The inspector is closed as soon as the answer is out, so that the next process can have its port. */
const CLOSE = `setImmediate(() => process.getBuiltinModule("node:inspector").close())`;
/** The protocol's own HeapProfiler.collectGarbage left half of a heap of 60 MB. Source: V8, `--expose-gc` */
const COLLECT = `process.getBuiltinModule("node:v8").setFlagsFromString("--expose-gc");
  const collect = process.getBuiltinModule("node:vm").runInNewContext("gc");
  collect(); collect()`;

interface Answer {
  readonly id: number;
  readonly result?: { readonly result?: { readonly value?: unknown } };
}

async function debuggerUrl(): Promise<string> {
  const answer = await fetch(INSPECTOR);
  // Source: Chrome DevTools Protocol, HTTP endpoints.
  const targets = (await answer.json()) as readonly { readonly webSocketDebuggerUrl: string }[];
  return targets[0]?.webSocketDebuggerUrl ?? "";
}

/** Sends the calls of the protocol in order; the answer to the last one. */
function call(url: string, calls: readonly (readonly [string, object])[]): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  const socket = new WebSocket(url);
  socket.onopen = () => {
    for (const [id, [method, params]] of calls.entries()) {
      socket.send(JSON.stringify({ id, method, params }));
    }
  };
  socket.onmessage = ({ data }) => {
    // As above: events have no id.
    const answer = JSON.parse(String(data)) as Answer;
    if (answer.id !== calls.length - 1) return;
    resolve(answer);
    socket.close();
  };
  socket.onerror = () => {
    reject(new Error(`nobody answers at ${url}`));
  };
  return promise;
}

/** Undefined when the process did not open its inspector, because another one had the port still. */
async function tryToEvaluate(pid: number, text: string): Promise<readonly unknown[] | undefined> {
  process.kill(pid, "SIGUSR1");
  const url = await debuggerUrl();
  const expression = `(() => { ${CLOSE}; ${COLLECT}; return [process.pid, ${text}]; })()`;
  const { result } = await call(url, [["Runtime.evaluate", { expression, returnByValue: true }]]);
  const value: unknown = result?.result?.value;
  return Array.isArray(value) && value[0] === pid ? value : undefined;
}

/** What a text of JavaScript comes to in the process, whose garbage was collected before. */
export async function evaluateIn(pid: number, text: string): Promise<unknown> {
  const [, value] = await eventually(() => tryToEvaluate(pid, text).catch(() => undefined), {
    withinMs: CONNECT_MS,
  });
  return value;
}
